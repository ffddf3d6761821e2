// A bounded load of reads and writes, so that figures move.
import { sleep } from './harness.mjs';

const DAY_COUNT = 365;
const order = (i) => ({ customer: i % 200, total: i % 97, day: i % DAY_COUNT, text: 'x'.repeat(120) });

/** Documents that slow queries read. */
export async function fill(client) {
  const orders = client.db('shop').collection('orders');
  await orders.drop().catch(() => {});
  for (let from = 0; from < 20000; from += 5000)
    await orders.insertMany(Array.from({ length: 5000 }, (_, i) => order(from + i)));
}

/** Starts the load; the returned function ends it. It ends by itself after ten minutes. */
export function start(client) {
  const c = client.db('load').collection('c');
  const end = Date.now() + 600000;
  let running = true;
  const work = async (worker) => {
    for (let i = 0; running && Date.now() < end; i++) {
      try {
        await c.insertOne({ _id: `${worker}-${i}`, n: i, text: 'y'.repeat(200) });
        await c.findOne({ _id: `${worker}-${Math.max(0, i - 5)}` });
        await c.updateOne({ _id: `${worker}-${Math.max(0, i - 10)}` }, { $inc: { n: 1 } });
        if (i > 2000) await c.deleteOne({ _id: `${worker}-${i - 2000}` });
        if (i % 20 === 0) await sleep(5);
      } catch {
        await sleep(100); // the server is stopped or restarted by the test
      }
    }
  };
  const workers = [work(0), work(1)];
  return async () => {
    running = false;
    await Promise.all(workers);
  };
}
