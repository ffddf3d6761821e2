// Connects with the Node driver: node tls.mjs CASES, a file of lines `name TAB uri`. Prints `name TAB ok TAB user` or
// `name TAB error TAB text`.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
const need = createRequire(path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'x.js'));
const { MongoClient } = need('mongodb');

function causes(error) {
  const all = [];
  for (let one = error; one && all.length < 10; one = one.cause ?? one.reason?.servers?.values()?.next()?.value?.error) all.push(one.message);
  return all.join(' / ').replaceAll(/\s+/g, ' ');
}

for (const line of readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean)) {
  const [name, uri] = line.split('\t');
  try {
    const client = new MongoClient(uri);
    await client.connect();
    const status = await client.db('admin').command({ connectionStatus: 1 });
    const user = status.authInfo.authenticatedUsers[0]?.user ?? '';
    if (user) {
      const things = client.db('shop').collection('node');
      await things.insertOne({ text: 'x'.repeat(100000) });
      if ((await things.findOne()).text.length !== 100000) throw new Error('another document');
    }
    await client.close();
    console.log(`${name}\tok\t${user}`);
  } catch (error) {
    console.log(`${name}\terror\t${causes(error)}`);
  }
}
process.exit(0);
