// BullMQ under load: the jobs of the load generator, the way its documentation does it.
//
// usage: node bullmq.cjs JOB, a JSON object; BENCH_NODE is the folder with node_modules
'use strict';
const path = require('node:path');
const { createRequire } = require('node:module');
const bullmq = createRequire(path.join(process.env.BENCH_NODE, 'package.json'))('bullmq');

const NAME = 'bench';
const job = JSON.parse(process.argv[2]);
const connection = { host: '127.0.0.1', port: job.port, maxRetriesPerRequest: null };
// Finished jobs are removed, as a message of the other queues is.
const defaultJobOptions = { removeOnComplete: true, removeOnFail: true };

const nanos = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (value) => console.log(JSON.stringify(value));

const CURVE = [1, 5, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.99, 100];

function summary(micros) {
  const sorted = Float64Array.from(micros).sort();
  const at = (percent) => sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  return {
    count: sorted.length, p50: at(50), p99: at(99), p999: at(99.9), max: at(100),
    curve: CURVE.map((percent) => [percent, at(percent)]),
  };
}

function endOfInput() {
  return new Promise((resolve) => process.stdin.resume().once('end', resolve));
}

// A worker that calls `handle` for each of `count` jobs; resolves when all are completed.
async function work(count, concurrency, handle, ready = () => {}) {
  let completed = 0;
  let finish;
  const finished = new Promise((resolve) => { finish = resolve; });
  const worker = new bullmq.Worker(NAME, handle, {
    connection, concurrency, autorun: false,
    removeOnComplete: { count: 0 }, removeOnFail: { count: 0 },
  });
  worker.on('completed', () => { if (++completed === count) finish(); });
  await worker.waitUntilReady();
  const start = nanos();
  worker.run();
  ready();
  await finished;
  const seconds = (nanos() - start) / 1e9;
  await worker.close();
  return seconds;
}

const jobs = {
  async enqueue() {
    const queue = new bullmq.Queue(NAME, { connection, defaultJobOptions });
    await queue.waitUntilReady();
    const data = { p: 'x'.repeat(job.payload) };
    const batch = Array.from({ length: job.batch }, () => ({ name: 'job', data }));
    const start = nanos();
    for (let sent = 0; sent < job.count; sent += job.batch) await queue.addBulk(batch);
    const seconds = (nanos() - start) / 1e9;
    await queue.close();
    say({ count: job.count, seconds });
  },

  async consume() {
    const seconds = await work(job.count, job.concurrency, async () => {});
    say({ count: job.count, seconds });
  },

  // Jobs carry the instant when they were due to be sent, on the clock that processes share.
  async 'latency-consume'() {
    const micros = [];
    await work(job.count, job.concurrency, async ({ data }) => {
      micros.push((nanos() - data.sent) / 1e3);
    }, () => say({ ready: true }));
    say({ delivery: summary(micros) });
  },

  async 'latency-produce'() {
    const queue = new bullmq.Queue(NAME, { connection, defaultJobOptions });
    await queue.waitUntilReady();
    const pause = 1e9 / job.rate;
    const begin = nanos();
    const pending = [];
    for (let seq = 0; seq < job.count; ) {
      const due = begin + seq * pause;
      const now = nanos();
      if (now < due) { await sleep((due - now) / 1e6); continue; }
      pending.push(queue.add('job', { sent: now - due > pause ? due : now, p: 'x'.repeat(40) }));
      seq += 1;
    }
    await Promise.all(pending);
    await queue.close();
    say({ count: job.count });
  },

  // The worker stands before the first job comes, as workers do.
  async due() {
    const queue = new bullmq.Queue(NAME, { connection, defaultJobOptions });
    await queue.waitUntilReady();
    const wall = () => performance.timeOrigin + performance.now();
    const micros = [];
    let produced;
    await work(job.count, 10, async (one) => {
      // From the instant that the library itself set; by now it has cleared `delay`.
      micros.push((wall() - (one.timestamp + one.opts.delay)) * 1e3);
    }, () => {
      const batch = Array.from({ length: job.count },
        (_, seq) => ({ name: 'job', data: {}, opts: { delay: 500 + seq * job.step_ms } }));
      produced = queue.addBulk(batch);
    });
    await produced;
    await queue.close();
    say({ late: summary(micros) });
  },

  async idle() {
    const workers = Array.from({ length: job.consumers },
      () => new bullmq.Worker(NAME, async () => {}, { connection }));
    await Promise.all(workers.map((worker) => worker.waitUntilReady()));
    say({ ready: true });
    await endOfInput();
    process.exit(0);
  },
};

jobs[job.job]().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
