// The Node driver logs in with a token: oidc.mjs URI FILE, where the file has the token.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const need = createRequire(path.join(process.env.NODE_MODULES_DIR, "x.js"));
const { MongoClient } = need("mongodb");
const [uri, file] = process.argv.slice(2);
let asked = 0;
const client = new MongoClient(uri, {
  authMechanism: "MONGODB-OIDC",
  authMechanismProperties: {
    OIDC_CALLBACK: async () => {
      asked += 1;
      return { accessToken: readFileSync(file, "utf8"), expiresInSeconds: 60 };
    },
  },
});
const found = await client.db("test").collection("c").findOne();
const status = await client.db("admin").command({ connectionStatus: 1 });
const user = status.authInfo.authenticatedUsers[0];
await client.close();
if (found?._id !== 1 || user.user !== "corp/ann" || asked !== 1) {
  console.error(found, user, asked);
  process.exit(1);
}
