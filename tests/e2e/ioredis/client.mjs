// The RESP front through ioredis as it is. `node client.mjs PORT [TOKEN]` does the courtesies, the life of
// a lock, pipelines and a wait. Then it prints READY, the test kills the server, it prints ASKED when it has
// called while there is none, the test starts the server again, and ioredis reconnects by itself.

import assert from 'node:assert/strict';
import Redis from 'ioredis';

const [port, token] = process.argv.slice(2);
const options = { host: '127.0.0.1', port: Number(port), password: token, connectionName: 'test' };

// A map of version 2 of the protocol: keys and values in turn.
const mapOf = (reply) => Object.fromEntries(
  Array.from({ length: reply.length / 2 }, (_, i) => [reply[2 * i], reply[2 * i + 1]]));
const call = async (redis, ...words) => mapOf(await redis.call(...words));

function once(redis, event) {
  return new Promise((resolve, reject) => {
    redis.once(event, resolve);
    redis.once('error', reject);
  });
}

async function courtesies(one) {
  assert.equal(await one.ping(), 'PONG');
  assert.equal(await one.echo('a b'), 'a b');
  assert.equal(await one.client('GETNAME'), 'test');
  assert.ok((await one.client('ID')) > 0);
  assert.match(await one.info(), /loading:0/);
  assert.ok((await one.command('COUNT')) > 15);
  await assert.rejects(one.get('a'), /unknown command/);
}

async function lifeOfALock(one, two) {
  const granted = await call(one, 'HOLDFAST.ACQUIRE', 'i/a', 'TTL', 20000, 'OWNER', 'one');
  assert.equal(granted.outcome, 'GRANTED');
  const held = await call(two, 'HOLDFAST.ACQUIRE', 'i/a', 'OWNER', 'two');
  assert.equal(held.outcome, 'HELD');
  assert.equal(held.holder_fencing_token, granted.fencing_token);
  assert.equal((await call(one, 'HOLDFAST.RENEW', 'i/a', granted.lease_id)).outcome, 'RENEWED');

  const waiting = call(two, 'HOLDFAST.ACQUIRE', 'i/a', 'OWNER', 'two', 'WAIT', 20000);
  const behind = two.ping();
  while ((await call(one, 'HOLDFAST.DESCRIBE', 'i/a')).queue_length !== 1);
  assert.equal((await call(one, 'HOLDFAST.RELEASE', 'i/a', granted.lease_id)).outcome, 'RELEASED');
  const handedOver = await waiting;
  assert.equal(handedOver.provisional, 1);
  assert.ok(handedOver.fencing_token > granted.fencing_token);
  assert.equal(await behind, 'PONG');
  assert.equal((await call(two, 'HOLDFAST.RENEW', 'i/a', handedOver.lease_id)).outcome, 'RENEWED');
  assert.equal((await call(two, 'HOLDFAST.RELEASE', 'i/a', handedOver.lease_id)).outcome, 'RELEASED');
}

async function pipelines(one) {
  const pipeline = one.pipeline();
  for (let i = 0; i < 2000; i += 1) pipeline.call('HOLDFAST.ACQUIRE', `i/p/${i}`, 'REQUEST', `p${i}`);
  const replies = await pipeline.exec();
  replies.forEach(([error, reply], i) => {
    assert.equal(error, null);
    assert.equal(mapOf(reply).request_id, `p${i}`);
  });

  const automatic = one.duplicate({ enableAutoPipelining: true });
  const granted = await Promise.all(Array.from({ length: 500 }, (_, i) =>
    call(automatic, 'HOLDFAST.ACQUIRE', `i/auto/${i}`)));
  assert.ok(granted.every(({ outcome }) => outcome === 'GRANTED'));
  assert.equal(await automatic.quit(), 'OK');
}

async function election(one) {
  const session = await call(one, 'HOLDFAST.SESSION.OPEN', 'TTL', 20000);
  const lead = await call(one, 'HOLDFAST.CAMPAIGN', 'i/e', 'VALUE', 'here', 'SESSION', session.session_id);
  assert.equal((await call(one, 'HOLDFAST.LEADER', 'i/e')).fencing_token, lead.fencing_token);
  assert.equal((await call(one, 'HOLDFAST.SESSION.CLOSE', session.session_id)).outcome, 'CLOSED');
  assert.equal((await call(one, 'HOLDFAST.LEADER', 'i/e')).vacant, 1);
}

// ioredis sends what was not answered again when it is connected again, and that has one effect.
async function reconnects(one) {
  const acquire = ['HOLDFAST.ACQUIRE', 'i/again', 'TTL', 60000, 'REQUEST', 'again'];
  const first = await call(one, ...acquire);
  const gone = new Promise((resolve) => { one.once('reconnecting', resolve); });
  const ready = new Promise((resolve) => { gone.then(() => one.once('ready', resolve)); });
  console.log('READY');
  await gone;
  const asked = call(one, ...acquire);  // while there is no server
  console.log('ASKED');
  await ready;
  assert.equal((await asked).lease_id, first.lease_id);
  assert.equal(await one.client('GETNAME'), 'test');
  assert.equal((await call(one, 'HOLDFAST.RELEASE', 'i/again', first.lease_id)).outcome, 'RELEASED');
}

const one = new Redis({ ...options, maxRetriesPerRequest: null });
const two = new Redis({ ...options, maxRetriesPerRequest: null });
await Promise.all([once(one, 'ready'), once(two, 'ready')]);
for (const redis of [one, two]) redis.removeAllListeners('error').on('error', () => {});
if (token !== undefined) {
  const stranger = new Redis({ ...options, password: 'a-wrong-token', retryStrategy: null });
  await assert.rejects(once(stranger, 'ready'), /WRONGPASS/);
  stranger.disconnect();
}
await courtesies(one);
await lifeOfALock(one, two);
await pipelines(one);
await election(one);
await two.quit();
await reconnects(one);
await one.quit();
console.log('all as expected');
