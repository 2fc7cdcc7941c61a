// Takes a lock, and writes to a store that checks fencing tokens for as long as it holds the lock.
//
// It prints one line per step. SIGTERM makes it give the lock back. After it has lost the lock it writes
// once more on purpose, as a process would that was paused just before a write: the store must refuse.

import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { acquire, bootTime, connect, LeaseLost, NotAcquired } from './lease.mjs';
import { FencedStore, OldToken } from './store.mjs';

const { values: options, positionals: [resource, folder] } = parseArgs({
  allowPositionals: true,
  options: {
    endpoint: { type: 'string', default: '127.0.0.1:7420' },
    namespace: { type: 'string', default: 'default' },
    owner: { type: 'string', default: `node ${process.pid}` },
    proto: { type: 'string', default: '/usr/share/holdfast/proto' },
    ttl: { type: 'string', default: '30' },
    wait: { type: 'string', default: '0' },
    interval: { type: 'string', default: '0.5' },
    writes: { type: 'string', default: '0' },
  },
});
if (folder === undefined) {
  console.error('usage: worker.mjs RESOURCE STORE_FOLDER [--endpoint HOST:PORT] [--namespace NS] [--owner TEXT]'
    + ' [--proto FOLDER] [--ttl S] [--wait S] [--interval S] [--writes N]');
  process.exit(64);
}
const milliseconds = (name) => Number(options[name]) * 1000;
const say = (...words) => console.log(words.join(' '));

async function work(lease, store, stopping) {
  const over = AbortSignal.any([lease.signal, stopping]);
  for (let number = 1; !over.aborted; number += 1) {
    await pause(milliseconds('interval'), null, { signal: over }).catch(() => {});
    if (over.aborted) break;
    lease.ensureHeld();
    await store.write(lease.token, `${options.owner} ${number}`);
    say('WROTE', lease.token, number);
    if (number === Number(options.writes)) break;
  }
  if (!stopping.aborted) lease.ensureHeld();
}

async function main() {
  const stopping = new AbortController();
  process.on('SIGTERM', () => stopping.abort());
  const store = new FencedStore(folder);
  const client = connect(options.endpoint, options.proto);
  let lease;
  try {
    lease = await acquire(client, resource, {
      namespace: options.namespace, owner: options.owner, ttl: milliseconds('ttl'), wait: milliseconds('wait'),
    });
  } catch (error) {
    if (error instanceof NotAcquired) {
      say('REFUSED', error.message);
      return 75;
    }
    if (!('code' in error)) throw error;
    say('NO ANSWER', error.message);
    return 69;
  }
  say('GRANTED', lease.token);
  try {
    await work(lease, store, stopping.signal);
  } catch (error) {
    if (!(error instanceof LeaseLost || error instanceof OldToken)) throw error;
    say('LOST', lease.token, (bootTime() / 1000).toFixed(3));
    try {
      await store.write(lease.token, `${options.owner} late`);
      say('LATE WRITE TOOK EFFECT');  // nobody has written under a newer token yet
    } catch (refused) {
      if (!(refused instanceof OldToken)) throw refused;
      say('LATE WRITE REFUSED:', refused.message);
    }
    return 76;
  }
  try {
    say((await lease.release()) ? 'RELEASED' : 'ENDED BEFORE', lease.token);
  } catch {
    say('NOT RELEASED', lease.token);  // nobody renews it any more: it ends by itself
  }
  return 0;
}

process.exit(await main());
