// Commands as a person types them into mongosh to initiate a replica set and use it; run with --file.
let passed = 0;
const failed = [];
function check(name, ok, seen) {
  if (ok) passed++;
  else { failed.push(name); print('FAILED ' + name + ' ' + EJSON.stringify(seen)); }
}

try { rs.status(); check('status before', false); } catch (e) { check('status before', e.codeName === 'NotYetInitialized', e); }
const made = rs.initiate();
check('initiate', made.ok === 1, made);
try { rs.initiate(); check('twice', false); } catch (e) { check('twice', e.codeName === 'AlreadyInitialized', e); }
check('isWritablePrimary', db.hello().isWritablePrimary);
const status = rs.status();
check('status', status.ok === 1 && status.members.length === 1 && status.members[0].stateStr === 'PRIMARY', status);
const conf = rs.conf();
check('conf', conf.members[0].host === db.hello().me && conf.version === 1, conf);
conf.settings.electionTimeoutMillis = 5000;
check('reconfig', rs.reconfig(conf).ok === 1);
check('reconfigured', rs.conf().version === 2 && rs.conf().settings.electionTimeoutMillis === 5000, rs.conf());

db = db.getSiblingDB('nagi_replset_mongosh');
db.dropDatabase();
db.c.insertOne({ _id: 1, n: 1 });
const session = db.getMongo().startSession();
const inside = session.getDatabase(db.getName());
session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } });
inside.c.updateOne({ _id: 1 }, { $inc: { n: 1 } });
inside.c.insertOne({ _id: 2 });
check('inside', inside.c.find().itcount() === 2);
check('outside', db.c.find().itcount() === 1 && db.c.findOne().n === 1);
session.commitTransaction();
check('committed', db.c.find().itcount() === 2 && db.c.findOne({ _id: 1 }).n === 2);
session.startTransaction();
inside.c.deleteOne({ _id: 1 });
session.abortTransaction();
check('aborted', db.c.find().itcount() === 2);
session.endSession();
check('serverStatus', db.serverStatus().repl.setName === db.hello().setName);
db.dropDatabase();
print(`mongosh ${version()}, replica set: ${passed} assertions passed, ${failed.length} failed`);
quit(failed.length ? 1 : 0);
