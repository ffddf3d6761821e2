// Users and roles as the shell's helpers show them; run as root of a server with --auth.
let count = 0;
function equal(seen, expected, what) {
  count++;
  const [a, b] = [EJSON.stringify(seen), EJSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: saw ${a}, expected ${b}`);
}
function fails(code, what, run) {
  count++;
  try { run(); } catch (error) {
    if (error.code !== code) throw new Error(`${what}: ${error}`);
    return error;
  }
  throw new Error(`${what}: no error`);
}

const shop = db.getSiblingDB("nagi_shell_auth");
shop.dropAllUsers();
shop.dropAllRoles();
equal(shop.createUser({ user: "ann", pwd: "a", roles: ["readWrite"], customData: { desk: 1 } }).ok, 1, "createUser");
fails(51003, "a second ann", () => shop.createUser({ user: "ann", pwd: "a", roles: [] }));
const ann = shop.getUser("ann");
equal([ann.user, ann.db, ann.roles, ann.customData], ["ann", "nagi_shell_auth", [{ role: "readWrite", db: "nagi_shell_auth" }], { desk: 1 }], "getUser");
equal(ann.mechanisms, ["SCRAM-SHA-1", "SCRAM-SHA-256"], "mechanisms");
equal(shop.getUser("nobody"), null, "no such user");
equal(shop.getUsers().users.map((user) => user._id), ["nagi_shell_auth.ann"], "getUsers");
equal(shop.createRole({ role: "clerk", roles: [], privileges: [{ resource: { db: "nagi_shell_auth", collection: "orders" }, actions: ["find"] }] }).ok, 1, "createRole");
equal(shop.grantRolesToUser("ann", ["clerk"]).ok, 1, "grantRolesToUser");
equal(shop.revokeRolesFromUser("ann", ["readWrite"]).ok, 1, "revokeRolesFromUser");
equal(shop.getUser("ann").roles, [{ role: "clerk", db: "nagi_shell_auth" }], "roles");
equal(shop.getRole("clerk", { showPrivileges: true }).privileges[0].actions, ["find"], "getRole");
equal(shop.getRole("read").isBuiltin, true, "a built-in role");
equal(shop.getRoles({ showBuiltinRoles: true }).roles.length > 5, true, "getRoles");
equal(shop.grantPrivilegesToRole("clerk", [{ resource: { db: "nagi_shell_auth", collection: "orders" }, actions: ["insert"] }]).ok, 1, "grantPrivilegesToRole");

shop.orders.insertOne({ _id: 0 });
const uri = db.getMongo().getURI().replace(/\/\/[^@]*@/, "//").replace(/\?.*/, "").replace(/\/[^/]*$/, "");
const as = (password) => new Mongo(`${uri.replace("//", `//ann:${password}@`)}/?authSource=nagi_shell_auth`).getDB("nagi_shell_auth");
equal(as("a").orders.insertOne({ _id: 1 }).acknowledged, true, "ann inserts");
equal(as("a").orders.countDocuments(), 2, "ann counts");
const refused = fails(13, "ann updates", () => as("a").orders.updateOne({ _id: 1 }, { $set: { a: 1 } }));
equal(/not authorized on nagi_shell_auth to execute command/.test(refused.message), true, "says so");
equal(shop.changeUserPassword("ann", "b").ok, 1, "changeUserPassword");
fails(18, "the old password", () => as("a").orders.countDocuments());
equal(as("b").orders.countDocuments(), 2, "the new password");
equal(as("b").runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers, [{ user: "ann", db: "nagi_shell_auth" }], "connectionStatus");
equal(shop.auth("ann", "b").ok, 1, "db.auth");
equal(db.getSiblingDB("admin").auth("root", "secret").ok, 1, "and back");
equal(shop.dropUser("ann").ok, 1, "dropUser");
equal(shop.dropRole("clerk").ok, 1, "dropRole");
shop.dropDatabase();
print(`mongosh ${version()}: ${count} assertions passed`);
