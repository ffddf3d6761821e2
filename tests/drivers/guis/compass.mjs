// What Compass asks for, by the library that it is made of: on connecting, and on its pages.
import { check, need } from '../console/harness.mjs';

const DB = 'compass';
const isCount = (value) => Number.isFinite(Number(value)) && Number(value) >= 0;

export async function compass({ server, login }) {
  const { connect } = need('mongodb-data-service');
  const connectionString = server.uri.replace('//', `//${login}`);
  const service = await connect({ connectionOptions: { connectionString }, productName: 'Compass' });
  const client = await new (need('mongodb').MongoClient)(connectionString).connect();
  try {
    await service.dropDatabase(DB);
    await start(service, login);
    await collections(service);
    await documents(service, server.isSet);
    await indexes(service);
    await performance(service, (op) => client.db('admin').command({ killOp: 1, op }));
    await administration(service);
  } finally {
    await service.dropDatabase(DB).catch(() => {});
    await service.disconnect();
    await client.close();
  }
}

/** The requests of a new connection: kind of server, versions, machine, rights. */
async function start(service, login) {
  check('compass: connected', service.isConnected() && service.isWritable() && !service.isMongos());
  const type = service.getCurrentTopologyType();
  check('compass: kind of deployment', ['Single', 'ReplicaSetWithPrimary'].includes(type), type);
  const instance = await service.instance();
  check(
    'compass: version',
    /^8\.0\./.test(instance.build.version) && instance.build.isEnterprise === false,
    instance.build,
  );
  check(
    'compass: genuine',
    instance.genuineMongoDB.isGenuine && !instance.isAtlas && !instance.isLocalAtlas && !instance.dataLake.isDataLake,
    instance,
  );
  check(
    'compass: feature compatibility',
    instance.featureCompatibilityVersion === '8.0',
    instance.featureCompatibilityVersion,
  );
  const { host } = instance;
  check(
    'compass: machine',
    host.os_family === 'linux' &&
      host.cpu_cores >= 1 &&
      host.memory_bits > 1e8 &&
      ['os', 'arch', 'kernel_version', 'kernel_version_string'].every((name) => host[name]),
    host,
  );
  const { user, roles, privileges } = instance.auth;
  if (login)
    check(
      'compass: user',
      user?.user === 'root' &&
        roles.some((role) => role.role === 'root') &&
        privileges.length > 3 &&
        privileges.every((one) => one.actions.length),
      instance.auth,
    );
  else check('compass: no user', user === null && same(roles, []) && same(privileges, []), instance.auth);
  check('compass: no search indexes', (await service.isListSearchIndexesSupported(`${DB}.none`)) === false);
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

async function collections(service) {
  await service.createCollection(`${DB}.things`, { validator: { n: { $lt: 1000 } }, validationLevel: 'moderate' });
  await service.createCollection(`${DB}.series`, { timeseries: { timeField: 't', metaField: 'm' } });
  await service.createCollection(`${DB}.clustered`, { clusteredIndex: { key: { _id: 1 }, unique: true } });
  await service.createCollection(`${DB}.french`, { collation: { locale: 'fr' } });
  await service.createView('some', `${DB}.things`, [{ $match: { n: 1 } }], {});
  await service.insertMany(
    `${DB}.things`,
    Array.from({ length: 300 }, (_, i) => ({ _id: i, n: i % 10, s: 'x'.repeat(100), at: { x: [i] } })),
  );
  const databases = await service.listDatabases();
  check(
    'compass: databases',
    databases.some((one) => one.name === DB),
    databases,
  );
  check(
    'compass: names of databases',
    (await service.listDatabases({ nameOnly: true })).some((one) => one.name === DB),
  );
  const stats = await service.databaseStats(DB);
  check(
    'compass: sizes of a database',
    stats.document_count >= 300 &&
      stats.data_size > 30000 &&
      stats.index_count >= 2 &&
      [stats.storage_size, stats.index_size, stats.collection_count].every(isCount),
    stats,
  );
  const listed = Object.fromEntries((await service.listCollections(DB)).map((one) => [one.name, one]));
  check(
    'compass: kinds of collections',
    listed.things?.type === 'collection' && listed.series?.type === 'timeseries' && listed.some?.type === 'view',
    Object.values(listed).map((one) => [one.name, one.type]),
  );
  check(
    'compass: properties',
    listed.clustered?.clustered &&
      listed.french?.collation.locale === 'fr' &&
      listed.some?.view_on === 'things' &&
      listed.some.readonly,
    listed,
  );
  check(
    'compass: validation',
    same(listed.things?.validation?.validator, { n: { $lt: 1000 } }) &&
      listed.things.validation.validationLevel === 'moderate',
    listed.things?.validation,
  );
  check(
    'compass: names of collections',
    (await service.listCollections(DB, {}, { nameOnly: true })).some((one) => one.name === 'things'),
  );
  check('compass: one collection', (await service.collectionInfo(DB, 'things')).name === 'things');
  const own = await service.collectionStats(DB, 'things', 'collection');
  check(
    'compass: sizes of a collection',
    own.document_count === 300 &&
      own.document_size > 30000 &&
      own.index_count === 1 &&
      [own.avg_document_size, own.storage_size, own.free_storage_size, own.index_size].every(isCount),
    own,
  );
  const series = await service.collectionStats(DB, 'series', 'timeseries');
  check('compass: sizes of a series', isCount(series.storage_size), series);
}

async function documents(service, isSet) {
  const ns = `${DB}.things`;
  check('compass: counts', (await service.estimatedCount(ns)) === 300 && (await service.count(ns, { n: 3 })) === 30);
  const found = await service.find(
    ns,
    { n: 3 },
    { sort: { _id: -1 }, limit: 2, projection: { n: 1 }, maxTimeMS: 60000 },
  );
  check(
    'compass: a query',
    same(found, [
      { _id: 293, n: 3 },
      { _id: 283, n: 3 },
    ]),
    found,
  );
  check(
    'compass: an aggregation',
    (
      await service.aggregate(ns, [{ $group: { _id: '$n', count: { $sum: 1 } } }], {
        maxTimeMS: 60000,
        allowDiskUse: true,
      })
    ).length === 10,
  );
  const sample = await service.sample(ns, { query: { n: { $lt: 5 } }, size: 20, fields: { n: 1 } });
  check('compass: a sample for the schema', sample.length === 20 && sample.every((doc) => doc.n < 5), sample.length);
  await service.insertOne(ns, { _id: 'new', n: 1 });
  const changed = await service.findOneAndUpdate(ns, { _id: 'new' }, { $set: { n: 2 } }, { returnDocument: 'after' });
  check('compass: an edited field', changed?.n === 2, changed);
  const replaced = await service.findOneAndReplace(ns, { _id: 'new' }, { n: 3 }, { returnDocument: 'after' });
  check('compass: a replaced document', replaced?.n === 3, replaced);
  const preview = await service
    .previewUpdate(ns, { _id: 'new' }, { $set: { n: 4 } })
    .catch((error) => ({ error: String(error) }));
  check(
    'compass: the preview of an update',
    isSet ? Number(preview.changes?.[0].after.n) === 4 : preview.error?.includes('Transaction numbers'),
    preview,
  );
  check('compass: it changed nothing', (await service.find(ns, { _id: 'new' }, {}))[0].n === 3);
  check('compass: many updated', (await service.updateMany(ns, { n: 3 }, { $set: { u: 1 } })).modifiedCount === 31);
  check(
    'compass: bulk',
    (
      await service.bulkWrite(ns, [{ updateOne: { filter: { _id: 1 }, update: { $set: { u: 2 } } } }], {
        ordered: false,
      })
    ).modifiedCount === 1,
  );
  check(
    'compass: deleted',
    (await service.deleteOne(ns, { _id: 'new' })).deletedCount === 1 &&
      (await service.deleteMany(ns, { _id: { $gte: 290 } })).deletedCount === 10,
  );
  await check_refused(service, ns);
}

async function check_refused(service, ns) {
  const error = await service.insertOne(ns, { n: 5000 }).catch((one) => one);
  check(
    'compass: the validator explains',
    error.code === 121 && error.errInfo?.details?.operatorName === '$lt',
    error.errInfo ?? String(error),
  );
}

async function indexes(service) {
  const ns = `${DB}.things`;
  await service.createIndex(ns, { n: 1, s: -1 }, { name: 'pair', unique: false });
  await service.createIndex(ns, { s: 'text' }, {});
  await service.createIndex(ns, { u: 1 }, { partialFilterExpression: { u: { $gt: 1 } }, sparse: false });
  await service.find(ns, { n: 3 }, {});
  const listed = Object.fromEntries((await service.indexes(ns)).map((one) => [one.name, one]));
  check('compass: indexes', same(Object.keys(listed).sort(), ['_id_', 'pair', 's_text', 'u_1']), Object.keys(listed));
  check(
    'compass: their use',
    listed.pair?.usageCount >= 1 && listed.pair.usageSince instanceof Date && listed.pair.usageHost,
    listed.pair,
  );
  check(
    'compass: their sizes',
    Object.values(listed).every((one) => one.size > 0 && isCount(one.relativeSize)),
    Object.values(listed).map((one) => [one.name, one.size]),
  );
  check(
    'compass: their kinds',
    listed.s_text?.type === 'text' && listed.u_1?.properties.includes('partial') && listed.pair?.type === 'regular',
    Object.values(listed).map((one) => [one.name, one.type, one.properties]),
  );
  const plan = await service.explainFind(ns, { n: 3 }, {}, { explainVerbosity: 'allPlansExecution' });
  check(
    'compass: explain',
    JSON.stringify(plan).includes('IXSCAN') && plan.executionStats.nReturned === 29,
    plan.executionStats?.nReturned,
  );
  const stages = await service.explainAggregate(ns, [{ $match: { n: 3 } }], {}, { explainVerbosity: 'executionStats' });
  check('compass: explain of an aggregation', JSON.stringify(stages).includes('IXSCAN'), stages);
  await service.updateCollection(ns, { index: { name: 'pair', hidden: true } });
  check(
    'compass: a hidden index',
    JSON.stringify((await service.indexes(ns)).find((one) => one.name === 'pair').extra).includes('hidden'),
  );
  await service.dropIndex(ns, 'pair');
  check('compass: a dropped index', !(await service.indexes(ns)).some((one) => one.name === 'pair'));
}

/** The page Performance reads these each second. */
async function performance(service, killer) {
  const status = await service.serverStatus();
  const { opcounters, mem, network, connections, globalLock } = status;
  const numbers = [
    ...['insert', 'query', 'update', 'delete', 'command', 'getmore'].map((name) => opcounters[name]),
    mem.virtual,
    mem.resident,
    network.bytesIn,
    network.bytesOut,
    connections.current,
    globalLock.activeClients.readers,
    globalLock.activeClients.writers,
    globalLock.currentQueue.readers,
    globalLock.currentQueue.writers,
  ];
  check(
    'compass: charts',
    numbers.every(isCount) && mem.resident > 0 && connections.current >= 1 && status.localTime instanceof Date,
    numbers,
  );
  const { totals } = await service.top();
  const one = totals[`${DB}.things`];
  check(
    'compass: hottest collections',
    one && ['total', 'readLock', 'writeLock'].every((name) => isCount(one[name].time) && isCount(one[name].count)),
    one,
  );
  const slow = service.find(`${DB}.things`, { $where: 'sleep(10) || true' }, {}).catch((error) => error);
  let op;
  for (const end = Date.now() + 20000; !op && Date.now() < end;) {
    const { inprog } = await service.currentOp();
    op = inprog.find((each) => each.ns === `${DB}.things` && each.op === 'query');
  }
  check(
    'compass: slowest operations',
    op &&
      isCount(op.microsecs_running) &&
      op.secs_running !== undefined &&
      op.opid &&
      op.client &&
      'waitingForLock' in op &&
      op.active === true,
    op,
  );
  // This version of the library names the field `id`, which no server accepts.
  const refused = await service.killOp(op.opid).catch((error) => error);
  check('compass: its killOp names no operation', refused instanceof Error, refused);
  await killer(op.opid);
  check('compass: the operation is gone', (await slow).code === 11601, String(await slow));
}

async function administration(service) {
  await service.updateCollection(`${DB}.things`, { validator: {}, validationLevel: 'off' });
  await service.renameCollection(`${DB}.things`, 'renamed');
  const names = (await service.listCollections(DB)).map((one) => one.name);
  check('compass: renamed', names.includes('renamed') && !names.includes('things'), names);
  await service.dropCollection(`${DB}.renamed`);
  check('compass: dropped', !(await service.listCollections(DB)).some((one) => one.name === 'renamed'));
  const error = await service.createSearchIndex(`${DB}.french`, { name: 'd', definition: {} }).catch((one) => one);
  check('compass: no search indexes here', error.code === 31082, String(error));
  check('compass: no shard key', (await service.fetchShardKey(`${DB}.french`)) === null);
}
