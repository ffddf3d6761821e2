// The shell's helpers for administrators on a standalone server; run with --file. Prints each failure and a count.
let passed = 0;
const failed = [];
function check(name, ok, seen) {
  if (ok) passed++;
  else { failed.push(name); print('FAILED ' + name + ' ' + EJSON.stringify(seen)); }
}
const same = (a, b) => EJSON.stringify(a, { relaxed: true }) === EJSON.stringify(b, { relaxed: true });
const equal = (name, seen, expected) => check(name, same(seen, expected), seen);
function fails(name, run, expected) {
  try { check(name, false, run()); } catch (e) {
    const ok = typeof expected === 'number' ? e.code === expected : e.message.includes(expected);
    check(name, ok, { code: e.code, message: e.message });
  }
}
const isNumber = (value) => Number.isFinite(Number(value));

db = db.getSiblingDB('nagi_helpers');
db.dropDatabase();
const mongo = db.getMongo();
const c = db.things;
c.insertMany(Array.from({ length: 200 }, (_, i) => ({ _id: i, n: i % 10, s: 'x'.repeat(100) })));
c.createIndex({ n: 1 });
c.createIndex({ s: 1 });
db.createView('some', 'things', [{ $match: { n: 1 } }]);
db.createCollection('round', { capped: true, size: 100000, max: 10 });
db.createCollection('series', { timeseries: { timeField: 't', metaField: 'm' } });

function sizes() {
  const stats = db.stats();
  equal('db.stats', [stats.db, Number(stats.collections), Number(stats.views), Number(stats.objects), Number(stats.indexes)], ['nagi_helpers', 4, 2, 202, 7]);
  check('db.stats: sizes', stats.dataSize > 20000 && stats.avgObjSize > 100 && stats.fsTotalSize > stats.fsUsedSize, stats);
  const scaled = db.stats({ scale: 1024, freeStorage: 1 });
  check('db.stats with a scale', Number(scaled.scaleFactor) === 1024 && isNumber(scaled.freeStorageSize), scaled);
  const own = c.stats({ indexDetails: true });
  check('stats', own.ns === 'nagi_helpers.things' && own.count === 200 && own.nindexes === 3 && own.capped === false && own.ok === 1, own);
  equal('stats: indexes', [Object.keys(own.indexSizes), Object.keys(own.indexDetails)], [['_id_', 'n_1', 's_1'], ['_id_', 'n_1', 's_1']]);
  equal('stats of one index', Object.keys(c.stats({ indexDetails: true, indexDetailsKey: { n: 1 } }).indexDetails), ['n_1']);
  check('stats with a scale', Math.abs(c.stats(1024).size - own.size / 1024) < 1, c.stats(1024).size);
  check('sizes', Number(c.dataSize()) === Number(own.size) && isNumber(c.storageSize()) &&
    Number(c.totalSize()) >= Number(c.totalIndexSize()) && Number(c.totalIndexSize()) > 0, [c.dataSize(), c.storageSize(), c.totalIndexSize(), c.totalSize()]);
  const all = db.printCollectionStats().value;
  equal('printCollectionStats', [all.things.count, all.round.max, all.round.capped], [200, 10, true]);
  check('printCollectionStats: of a view its error, of a series its buckets',
    all.some.ok === 0 && all.some.errmsg.includes('view') && all.series.timeseries.bucketsNs === 'nagi_helpers.system.buckets.series', all);
  equal('isCapped', [db.round.isCapped(), c.isCapped()], [true, false]);
  check('latencyStats', c.latencyStats()[0].latencyStats.writes.ops > 0 && c.latencyStats()[0].ns === 'nagi_helpers.things', c.latencyStats());
  const histogram = c.latencyStats({ histograms: true })[0].latencyStats.writes.histogram;
  check('latencyStats with histograms', histogram.length > 0 && isNumber(histogram[0].micros) && isNumber(histogram[0].count), histogram);
  const valid = c.validate(true);
  check('validate', valid.valid === true && Number(valid.nrecords) === 200 && Number(valid.nIndexes) === 3 && same(valid.errors, []), valid);
}

function server() {
  const status = db.serverStatus({ metrics: 0 });
  check('serverStatus', status.process === 'nagi' || status.process === 'mongod', status.process);
  check('serverStatus without a section', status.metrics === undefined && status.opcounters.insert >= 200, Object.keys(status));
  const host = db.hostInfo();
  check('hostInfo', host.system.numCores >= 1 && host.system.memSizeMB > 0 && host.os.type === 'Linux' && isNumber(host.extra.pageSize), host);
  check('serverBuildInfo', db.serverBuildInfo().versionArray.length === 4 && db.serverBits() === 64, db.serverBuildInfo());
  const options = db.serverCmdLineOpts();
  check('serverCmdLineOpts', options.argv.length > 1 && options.parsed.storage.dbPath.length > 0 && isNumber(options.parsed.net.port), options);
  equal('commandHelp', db.commandHelp('compact'), 'help for: compact Releases unused disk space of a collection.');
  check('hello and isMaster', db.hello().isWritablePrimary && db.isMaster().ismaster, db.isMaster());
  check('getLogComponents', isNumber(db.getLogComponents().verbosity) && isNumber(db.getLogComponents().query.verbosity), db.getLogComponents());
  check('setLogLevel', db.setLogLevel(1, 'query').was.query !== undefined && db.getLogComponents().query.verbosity === 1, db.getLogComponents());
  check('setLogLevel of a part', db.setLogLevel(2, 'storage.journal').ok === 1 && db.getLogComponents().storage.journal.verbosity === 2, db.getLogComponents());
  db.setLogLevel(-1, 'query');
  db.setLogLevel(-1, 'storage.journal');
  const commands = db.listCommands().value;
  check('listCommands', commands.find.help.length > 0 && commands.aggregate !== undefined, Object.keys(commands).length);
  equal('fsyncLock and fsyncUnlock', [db.fsyncLock().lockCount, db.fsyncUnlock().lockCount].map(Number), [1, 0]);
  equal('adminCommand with a string', db.adminCommand('ping').ok, 1);
  equal('runCommand of a collection', c.runCommand('count', { query: { n: 1 } }).n, 20);
}

function operations() {
  const mine = db.currentOp({ active: true, 'command.aggregate': 1 }).inprog;
  check('currentOp shows itself', mine.some((op) => op.op === 'command' && isNumber(op.opid) && op.client.startsWith('127.0.0.1')), mine);
  check('currentOp of all', db.currentOp(true).inprog.length >= mine.length, mine.length);
  check('currentOp: the shell has a name', db.currentOp(true).inprog.some((op) => /mongosh/.test(op.appName)), mine);
  equal('killOp of none', db.killOp(1).info, 'attempting to kill op');
  equal('getProfilingStatus', db.getProfilingStatus().was, 0);
  const level = db.setProfilingLevel(2, { slowms: 50, sampleRate: 0.5 });
  equal('setProfilingLevel', [level.was, level.ok], [0, 1]);
  const now = db.getProfilingStatus();
  equal('the level now', [now.was, now.slowms, now.sampleRate], [2, 50, 0.5]);
  db.setProfilingLevel(2, { sampleRate: 1, slowms: 0 });
  c.find({ $where: 'sleep(2) || true' }).limit(3).toArray();
  db.setProfilingLevel(0, { slowms: 100 });
  const profile = mongo.show('profile').value;
  check('show profile', profile.count >= 1 && profile.result[0].millis > 0 && profile.result.some((entry) => entry.ns === 'nagi_helpers.things'), profile);
  fails('a level that does not exist', () => db.setProfilingLevel(3), 'out of range');
}

function logs() {
  equal('show logs', mongo.show('logs').value, ['global', 'startupWarnings']);
  const lines = mongo.show('log').value;
  check('show log', lines.length > 5 && lines.every((line) => JSON.parse(line).t.$date), lines.slice(-2));
  check('show log startupWarnings', mongo.show('log', 'startupWarnings').value.length > 0, []);
  fails('a log that does not exist', () => mongo.show('log', 'nope'), 'No log named');
  const banner = mongo.show('startupWarnings').value;
  check('the banner of warnings is read', !banner.content.includes('Unexpected log line format') && banner.content.includes('Access control'), banner);
  equal('no other banners', [mongo.show('automationNotices').value, mongo.show('nonGenuineMongoDBCheck').value], [null, null]);
  const names = mongo.show('collections').value.map((row) => `${row.name} ${row.badge}`);
  equal('show collections', names.filter((name) => !name.startsWith('system.')), ['round ', 'series [time-series]', 'some [view]', 'things ']);
  check('show dbs', mongo.show('dbs').value.some((row) => row.name === 'nagi_helpers' && row.sizeOnDisk > 0), mongo.show('dbs').value);
  equal('show users', mongo.show('users').value, []);
  check('show roles', mongo.show('roles').value.some((role) => role.role === 'readWrite' && role.isBuiltin), []);
}

function plans() {
  c.find({ n: 5, s: 'x' }).toArray();
  c.find({ n: 5, s: 'x' }).toArray();
  const cache = c.getPlanCache();
  const cached = () => cache.list().some((plan) => /"n".*5.*"s".*"x"/.test(EJSON.stringify(plan.createdFromQuery)));
  check('plan cache', cached(), cache.list());
  equal('clearPlansByQuery', cache.clearPlansByQuery({ n: 5, s: 'x' }).ok, 1);
  check('it is gone', !cached(), cache.list());
  equal('clear', cache.clear().ok, 1);
  equal('getIndexKeys', c.getIndexKeys(), [{ _id: 1 }, { n: 1 }, { s: 1 }]);
  check('explain of the collection', c.explain('executionStats').count({ n: 1 }).executionStats.executionSuccess, []);
  check('explain of a write', c.explain().update({ n: 1 }, { $set: { u: 1 } }).queryPlanner.namespace === 'nagi_helpers.things', []);
  equal('mapReduce', c.mapReduce(function () { emit(this.n, 1); }, (key, values) => Array.sum(values), { out: { inline: 1 } }).results.length, 10);
  equal('exists', c.exists().name, 'things');
  equal('convertToCapped', db.things.convertToCapped(1000000).ok, 1);
}

// What belongs to sets and clusters fails as on a standalone of MongoDB.
function elsewhere() {
  fails('rs.status', () => rs.status(), 76);
  fails('rs.conf', () => rs.conf(), 76);
  fails('rs.printReplicationInfo', () => rs.printReplicationInfo(), 'Replication not detected');
  fails('db.getReplicationInfo', () => db.getReplicationInfo(), 'Replication not detected');
  fails('rs.printSecondaryReplicationInfo', () => rs.printSecondaryReplicationInfo(), 'local.system.replset is empty');
  check('rs.hello', rs.hello().isWritablePrimary === true && rs.hello().setName === undefined, rs.hello());
  fails('rs.stepDown', () => rs.stepDown(), 76);
  fails('watch', () => c.watch(), 40573);
  fails('sh.status', () => sh.status(), 'not have sharding enabled');
  fails('getShardDistribution', () => c.getShardDistribution(), 'is not sharded');
  fails('getShardVersion', () => c.getShardVersion(), 59);
  fails('sh.enableSharding', () => sh.enableSharding('nagi_helpers'), 59);
  fails('sh.addShard', () => sh.addShard('rs1/localhost:1'), 59);
  equal('sh.getBalancerState', sh.getBalancerState(), true);
  fails('sh.isBalancerRunning', () => sh.isBalancerRunning(), 59);
  fails('sh.getShardedDataDistribution', () => sh.getShardedDataDistribution(), 'mongos');
  fails('getSearchIndexes', () => c.getSearchIndexes(), 31082);
  fails('createSearchIndex', () => c.createSearchIndex('s', { mappings: { dynamic: true } }), 31082);
  fails('rotateCertificates', () => db.rotateCertificates(), 'rotat');
}

for (const part of [sizes, server, operations, logs, plans, elsewhere]) {
  try { part(); } catch (e) { check(`${part.name}: ${e.stack}`, false); }
}
db.dropDatabase();
print(`mongosh ${version()}, helpers: ${passed} assertions passed, ${failed.length} failed`);
quit(failed.length ? 1 : 0);
