"""An LDAP server for tests: Debian's slapd in a folder and on ports of its own, with users and nested groups."""
import os
import shutil
import signal
import socket
import subprocess
import time

BASE = "dc=example,dc=org"
PEOPLE, GROUPS = "ou=people," + BASE, "ou=groups," + BASE
QUERY, QUERY_PASSWORD = "cn=query," + BASE, "query-secret-7"
ADMIN, ADMIN_PASSWORD = "cn=admin," + BASE, "admin-secret-7"
SLAPD = next((path for path in ("/usr/sbin/slapd", "/usr/libexec/slapd") if os.path.exists(path)), "slapd")
SCHEMAS = next((path for path in ("/etc/ldap/schema", "/etc/openldap/schema") if os.path.isdir(path)), "")
MODULES = next((path for path in ("/usr/lib/ldap", "/usr/lib64/openldap") if os.path.isdir(path)), "")

# Name, password, mail. The second has a comma; in a distinguished name it is escaped.
USERS = [
    ("ann", "ann-secret-7", "ann@example.org"),
    ("o,neil", "neil-secret-7", "neil@example.org"),
    ("bob", "bob-secret-7", "bob@example.org"),
    ("carl", "carl-secret-7", "carl@example.org"),
    ("m\u00fcller", "m\u00fcller-secret-7", "mueller@example.org"),
    ("twin1", "twin-secret-7", "twin@example.org"),
    ("twin2", "twin-secret-7", "twin@example.org"),
]


def person(name):
    return "uid=%s,%s" % (name.replace(",", "\\,"), PEOPLE)


def group(name):
    return "cn=%s,%s" % (name, GROUPS)


def entry(name, password, mail):
    return "\n".join([
        "dn: " + person(name), "objectClass: inetOrgPerson", "uid: " + name, "cn: " + name, "sn: " + name,
        "mail: " + mail, "userPassword: " + password, ""])


def members(name, *names):
    return "\n".join(["dn: " + group(name), "objectClass: groupOfNames", "cn: " + name,
                      *("member: " + member for member in names), ""])


CONTENT = "\n".join([
    "dn: " + BASE, "objectClass: dcObject", "objectClass: organization", "dc: example", "o: Example", "",
    "dn: " + PEOPLE, "objectClass: organizationalUnit", "ou: people", "",
    "dn: " + GROUPS, "objectClass: organizationalUnit", "ou: groups", "",
    "dn: " + QUERY, "objectClass: organizationalRole", "objectClass: simpleSecurityObject", "cn: query",
    "userPassword: " + QUERY_PASSWORD, "",
    *(entry(*user) for user in USERS),
    members("dbas", person("ann")),
    members("readers", person("bob"), person("o,neil")),
    # The readers are staff by a nested group.
    members("staff", group("readers"), person("m\u00fcller")),
])

CONFIG = """
include SCHEMAS/core.schema
include SCHEMAS/cosine.schema
include SCHEMAS/inetorgperson.schema
include SCHEMAS/dyngroup.schema
modulepath MODULES
moduleload back_mdb
moduleload dynlist
pidfile FOLDER/pid
argsfile FOLDER/args
threads 16
TLSCertificateFile CERTIFICATE
TLSCertificateKeyFile CERTIFICATE
TLSCACertificateFile AUTHORITY
database mdb
maxsize 16777216
suffix "dc=example,dc=org"
rootdn "cn=admin,dc=example,dc=org"
rootpw admin-secret-7
directory FOLDER/db
dbnosync
overlay dynlist
dynlist-attrset groupOfURLs memberURL member+memberOf@groupOfNames*
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=query,dc=example,dc=org" read by self read by * none
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Directory:
    def __init__(self, folder, authority, port=None):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder + "/db")
        certificate = authority.sign("slapd", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        text = CONFIG
        for name, value in (("SCHEMAS", SCHEMAS), ("MODULES", MODULES), ("FOLDER", folder),
                            ("CERTIFICATE", certificate), ("AUTHORITY", authority.file)):
            text = text.replace(name, value)
        self.config = folder + "/slapd.conf"
        with open(self.config, "w") as f:
            f.write(text)
        self.run([SLAPD, "-T", "add", "-f", self.config, "-q"], CONTENT)
        self.port, self.tls_port = port or free_port(), free_port()
        self.process = None
        self.start()

    def run(self, command, text):
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60)
        if done.returncode:
            raise SystemExit("%s: %s" % (" ".join(command), done.stderr.decode()))

    def start(self):
        urls = "ldap://127.0.0.1:%d ldaps://127.0.0.1:%d" % (self.port, self.tls_port)
        with open(self.folder + "/log", "ab") as log:
            self.process = subprocess.Popen([SLAPD, "-h", urls, "-f", self.config, "-d", "0"], stdout=log, stderr=log)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.tls_port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise SystemExit("slapd did not start: see " + self.folder + "/log")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def modify(self, text):
        self.run(["ldapmodify", "-x", "-H", "ldap://127.0.0.1:%d" % self.port, "-D", ADMIN, "-w", ADMIN_PASSWORD], text)

    def join(self, name, user):
        self.modify("dn: %s\nchangetype: modify\nadd: member\nmember: %s\n" % (group(name), person(user)))

    def leave(self, name, user):
        self.modify("dn: %s\nchangetype: modify\ndelete: member\nmember: %s\n" % (group(name), person(user)))

    def delete(self, user):
        self.modify("dn: %s\nchangetype: delete\n" % person(user))

    def add(self, name, password, mail):
        text = entry(name, password, mail).split("\n", 1)
        self.modify(text[0] + "\nchangetype: add\n" + text[1])
