// A lock of Holdfast as a lease: acquire, renew in the background, know when to stop.
// All times are in milliseconds.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

// Part of the ttl that the clocks of client and service may differ in while they count it.
const CLOCK_MARGIN = 0.05;
// bootTime() has steps of this size, and is rounded down.
const CLOCK_STEP = 10;
const CALL_TIMEOUT = 1000;
const RETRY_PAUSE = 100;
const { UNAVAILABLE, UNKNOWN, INTERNAL, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED } = grpc.status;
// The service may have done what was asked for, or nothing: asking again under the same request id is safe.
const RETRIED = new Set([UNAVAILABLE, UNKNOWN, INTERNAL, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED]);
// These refuse a renewal, but leave the lease in place until its promised end.
const STILL_HELD = new Set(['REVOKING', 'HOLD_LIMIT']);

export class NotAcquired extends Error {
  // `refusal` is the holdfast.v1.Refusal that says why.
  constructor(refusal) {
    super(refusal.code);
    this.refusal = refusal;
  }
}

// The lease is over, or may be: nothing may be done under it any more.
export class LeaseLost extends Error {}

// Goes on while the machine sleeps, which the clocks of Node do not.
export function bootTime() {
  return Math.round(Number.parseFloat(readFileSync('/proc/uptime', 'ascii')) * 1000);
}

const toDuration = (ms) => ({ seconds: Math.trunc(ms / 1000), nanos: Math.round(ms % 1000) * 1e6 });
const toMs = ({ seconds, nanos }) => Number(seconds) * 1000 + Math.trunc(nanos / 1e6);

// A client of holdfast.v1.Locks. `proto` is the folder of the installed .proto files.
export function connect(endpoint, proto = '/usr/share/holdfast/proto') {
  const definition = loader.loadSync('holdfast/v1/locks.proto', {
    includeDirs: [proto], keepCase: true, longs: String, enums: String, oneofs: true, defaults: true,
  });
  const { Locks } = grpc.loadPackageDefinition(definition).holdfast.v1;
  return new Locks(endpoint, grpc.credentials.createInsecure());
}

function call(client, method, request, timeout) {
  return new Promise((resolve, reject) => {
    client[method](request, { deadline: Date.now() + timeout },
      (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

// [answer, time of sending] of the first attempt that got an answer; throws when `until` has come.
async function callAgain(client, method, request, until, timeout = CALL_TIMEOUT) {
  for (;;) {
    const sent = bootTime();
    try {
      return [await call(client, method, request, Math.max(Math.min(timeout, until - sent), 1)), sent];
    } catch (error) {
      if (!RETRIED.has(error.code) || bootTime() + RETRY_PAUSE >= until) throw error;
    }
    await pause(RETRY_PAUSE);
  }
}

// Made by acquire(). `token` goes with every write to what the lock protects. `signal` is aborted when
// the local deadline has passed, or earlier when the service says that the lease is over.
export class Lease {
  #client;
  #key;
  #ttl;
  #margin;
  #renewedAt;
  #deadline;
  #renewable = true;
  #lost = new AbortController();
  #released = new AbortController();
  #kept;

  constructor(client, key, grant, sent, stopTime) {
    this.token = grant.fencing_token;
    this.#client = client;
    this.#key = key;
    this.#ttl = toMs(grant.ttl);
    this.#margin = CLOCK_MARGIN * this.#ttl + CLOCK_STEP + stopTime;
    this.#renewedAt = sent;
    this.#deadline = sent + toMs(grant.remaining) - this.#margin;
  }

  get signal() {
    return this.#lost.signal;
  }

  held() {
    return !this.#released.signal.aborted && !this.signal.aborted && bootTime() < this.#deadline;
  }

  // Call it before each piece of work. A pause after it is what the fencing token is for.
  ensureHeld() {
    if (!this.held()) throw new LeaseLost(`token ${this.token}`);
  }

  // Stops renewing and gives the lock back. False if the lease had ended otherwise.
  async release() {
    this.#released.abort();
    await this.#kept;
    const [answer] = await callAgain(this.#client, 'Release', this.#key, bootTime() + this.#ttl);
    return answer.released;
  }

  // A grant out of the queue counts only once it is renewed: the acquire was sent long ago.
  async confirm(until) {
    while (!(await this.#renew(until))) {
      if (!this.#renewable || bootTime() >= until) {
        throw new LeaseLost('it was granted out of the queue, and could not be confirmed in time');
      }
      await pause(RETRY_PAUSE);
    }
  }

  startRenewing() {
    this.#kept = this.#keep();
  }

  async #keep() {
    const released = this.#released.signal;
    let nextAttempt = this.#renewedAt + this.#ttl / 3;
    while (!released.aborted) {
      const now = bootTime();
      if (now >= this.#deadline) break;
      if (!this.#renewable) nextAttempt = this.#deadline;
      if (now < nextAttempt) {
        // Rejected by the release, which the loop looks at.
        await pause(Math.min(nextAttempt, this.#deadline) - now, null, { signal: released }).catch(() => {});
      } else if (await this.#renew(this.#deadline)) {
        nextAttempt = this.#renewedAt + this.#ttl / 3;
      } else {
        nextAttempt = bootTime() + RETRY_PAUSE;
      }
    }
    if (!released.aborted) this.#lost.abort(new LeaseLost(`token ${this.token}`));
  }

  // One attempt. The new deadline counts from the moment of sending: the answer may be late.
  async #renew(until) {
    const sent = bootTime();
    const timeout = Math.min(CALL_TIMEOUT, until - sent);
    if (timeout <= 0) return false;
    let answer;
    try {
      answer = await call(this.#client, 'Renew', this.#key, timeout);
    } catch {
      return false;
    }
    if (answer.outcome === 'renewed') {
      this.#renewedAt = sent;
      this.#deadline = Math.max(this.#deadline, sent + toMs(answer.renewed.remaining) - this.#margin);
      return true;
    }
    this.#renewable = false;
    if (!STILL_HELD.has(answer.not_renewed.cause)) this.#deadline = sent;
    return false;
  }
}

// Takes the lock, or waits in its queue for `wait`. `patience` is how long attempts without an answer are
// repeated, `stopTime` how long your work takes to stop when the lease is lost. Throws NotAcquired, or a
// gRPC error without an answer.
export async function acquire(client, resource, {
  namespace = '', owner = '', ttl = 30_000, wait = 0, patience = 10_000, stopTime = 100,
} = {}) {
  const request = {
    namespace, resource, request_id: randomUUID(), owner, ttl: toDuration(ttl), wait: toDuration(wait),
  };
  const [answer, sent] = await callAgain(client, 'Acquire', request, bootTime() + wait + patience,
    wait + CALL_TIMEOUT);
  if (answer.outcome === 'refused') throw new NotAcquired(answer.refused);
  const grant = answer.granted;
  const lease = new Lease(client, { namespace, resource, lease_id: grant.lease_id }, grant, sent, stopTime);
  if (grant.provisional) await lease.confirm(bootTime() + toMs(grant.remaining));
  lease.startRenewing();
  return lease;
}
