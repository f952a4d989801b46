// The main circle with node-redis or ioredis: circle.mjs CLIENT PORT PROTOCOL
import assert from 'node:assert/strict'

const [name, port, protocol] = process.argv.slice(2)
const queue = `${name}:${protocol}`

// What the two have in common: send arguments, get the reply, close.
async function connect() {
  if (name === 'ioredis') {
    const { Redis } = await import('ioredis')
    const client = new Redis({ port: Number(port), host: '127.0.0.1' })
    return { send: (...args) => client.call(...args), close: () => client.quit() }
  }
  const { createClient } = await import('redis')
  const client = createClient({ socket: { port: Number(port), host: '127.0.0.1' }, RESP: Number(protocol) })
  client.on('error', (error) => { throw error })
  await client.connect()
  return { send: (...args) => client.sendCommand(args), close: () => client.close() }
}

// A map; in RESP2, and on servers whose modules have no maps, a flat array.
function fields(reply) {
  if (!Array.isArray(reply)) return reply instanceof Map ? Object.fromEntries(reply) : { ...reply }
  return Object.fromEntries(reply.flatMap((key, at) => (at % 2 ? [] : [[key, reply[at + 1]]])))
}

const client = await connect()
const mq = (command, ...args) => client.send(`MQ.${command}`, queue, ...args.map(String))

assert.deepEqual(await mq('ENQUEUE', 'payload', 'ID', 'a', 'ATTEMPTS', 2), ['added', 'a'])
assert.deepEqual(await mq('ENQUEUE', 'payload', 'ID', 'a'), ['queued', 'a'])
assert.equal(fields(await mq('GET', 'a')).payload, 'payload')

let [id, payload, attempt, token, lock, enqueuedAt] = await mq('DEQUEUE', 'LOCK', 60000)
assert.deepEqual([id, payload, attempt, lock], ['a', 'payload', 1, 60000])
// Tokens are microseconds since 1970: they fit into a double until the year 2255.
assert.ok(Number.isSafeInteger(token) && token > 1.6e15 && enqueuedAt > 1.6e12)
assert.equal(await mq('STATUS', 'a'), 'locked')
await assert.rejects(mq('DONE', 'a', token - 1), /^[A-Za-z]*Error: STALE|STALE/)
assert.ok((await mq('EXTEND', 'a', token, 30000)) > enqueuedAt)
assert.equal(await mq('DONE', 'a', token, 'RETRY'), 'queued')
const batch = await mq('DEQUEUE', 'COUNT', 5)
assert.equal(batch.length, 1)
;[id, payload, attempt, token] = batch[0]
assert.deepEqual([id, attempt], ['a', 2])
assert.equal(await mq('DONE', 'a', token, 'ERROR', 'REASON', 'why'), 'dead')
assert.equal(fields(await mq('GET', 'a')).reason, 'why')
assert.equal(await mq('CANCEL', 'a'), 1)
assert.equal(await mq('STATUS', 'a'), null)
assert.equal(await mq('DEQUEUE'), null)
assert.equal(await mq('DEQUEUE', 'COUNT', 5), null)
assert.equal(await mq('DEQUEUE', 'BLOCK', 1), null)
assert.equal(typeof (await mq('DEQUEUE', 'EOQ')), 'number')

// A consumer that waits, on a connection of its own, for a message that is only due later.
const consumer = await connect()
const waiting = consumer.send('MQ.DEQUEUE', queue, 'BLOCK', '0')
assert.equal((await mq('ENQUEUE', 'later', 'DELAY', 50))[0], 'added')
const delivery = await waiting
assert.equal(delivery[1], 'later')
assert.equal(await mq('DONE', delivery[0], delivery[3]), 'done')

const info = fields(await mq('INFO'))
assert.deepEqual([info.messages, info['total-enqueued'], info['total-done']], [0, 2, 1])
await consumer.close()
await client.close()
console.log('done')
