// A file store that refuses old fencing tokens, without a lock of its own.
//
// A value is a file named after the token that it was written under, and the file with the highest token
// is the value. So a write under an older token changes nothing, however late it comes.

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

// The store has seen a higher token than that of this write.
export class OldToken extends Error {
  constructor(token, newest) {
    super(`token ${token}, the store has seen ${newest}`);
  }
}

async function sync(path, flags, text = null) {
  const file = await open(path, flags);
  try {
    if (text !== null) await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

// Tokens are decimal strings, as gRPC's loader gives them; they are below 2^53.
export class FencedStore {
  #folder;

  constructor(folder) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  // { token, text } of the newest value; token 0 of an empty store.
  async read() {
    for (;;) {
      const token = await this.#newest();
      if (token === 0) return { token, text: '' };
      try {
        return { token, text: await readFile(this.#path(token), 'utf8') };
      } catch (error) {
        if (error.code !== 'ENOENT') throw error;  // a newer one came, and this one was tidied away
      }
    }
  }

  // Durable when it is done. Throws OldToken and changes nothing if the token is too old.
  async write(tokenText, text) {
    const token = Number(tokenText);
    if (!Number.isSafeInteger(token) || token < 1) throw new TypeError(`not a fencing token: ${tokenText}`);
    const before = await this.#newest();
    if (before > token) throw new OldToken(token, before);
    const draft = join(this.#folder, `new-${randomUUID()}`);
    await sync(draft, 'wx', text);
    await rename(draft, this.#path(token));
    await sync(this.#folder, 'r');
    const newest = await this.#newest();
    for (const old of await this.#tokens()) {
      if (old < newest) await rm(this.#path(old), { force: true });
    }
    if (newest > token) throw new OldToken(token, newest);
  }

  async #newest() {
    return Math.max(0, ...(await this.#tokens()));
  }

  async #tokens() {
    return (await readdir(this.#folder)).filter((name) => /^\d+$/.test(name)).map(Number);
  }

  #path(token) {
    return join(this.#folder, String(token).padStart(16, '0'));
  }
}
