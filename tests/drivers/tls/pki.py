"""Certificates for tests, made by openssl: authorities, servers, clients, and lists of revoked ones."""
import os
import shutil
import subprocess

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
KEYS = {
    "ec": EC,
    "p384": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
    "rsa": ["-newkey", "rsa:2048"],
    "ed25519": ["-newkey", "ed25519"],
}
LOCAL = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def openssl(*args, cwd=None, text=""):
    done = subprocess.run(["openssl", *args], cwd=cwd, input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("openssl %s: %s" % (" ".join(args), done.stderr))
    return done.stdout


class Authority:
    """An authority in a folder of its own, which signs certificates and lists those that it revokes."""

    def __init__(self, folder, subject, parent=None):
        """With a parent: one whose own certificate that authority has signed."""
        self.folder = folder
        os.makedirs(folder)
        if parent:
            name = os.path.basename(folder)
            parent.sign(name, subject, "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign")
            shutil.copy(parent.path(name + ".crt"), self.path("ca.pem"))
            shutil.copy(parent.path(name + ".key"), self.path("ca.key"))
        else:
            openssl("req", "-x509", *EC, "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "3650", "-subj", subject,
                    cwd=folder)
        for name, text in (("index", ""), ("index.attr", "unique_subject = no\n"), ("serial", "01\n"), ("number", "01\n")):
            self.write(name, text)
        self.write("config", "\n".join([
            "[ca]", "default_ca = own", "[own]", "dir = .", "database = index", "serial = serial", "crlnumber = number",
            "certificate = ca.pem", "private_key = ca.key", "new_certs_dir = .", "default_md = sha256",
            "policy = any", "default_days = 3650", "default_crl_days = 30", "string_mask = utf8only", "[any]", *(
                "%s = optional" % field for field in (
                    "domainComponent", "countryName", "stateOrProvinceName", "localityName", "organizationName",
                    "organizationalUnitName", "commonName", "emailAddress"))]))
        self.file = self.path("ca.pem")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def sign(self, name, subject, extensions="", key="ec", dates=()):
        """A certificate with its key in one file; returns its path. `dates`: arguments of openssl ca."""
        openssl("req", *KEYS[key], "-nodes", "-utf8", "-keyout", name + ".key", "-out", name + ".csr", "-subj", subject,
                "-config", self.request(), cwd=self.folder)
        self.write(name + ".ext", extensions + "\n")
        openssl("ca", "-batch", "-notext", "-utf8", "-preserveDN", "-config", "config", "-in", name + ".csr", "-out", name + ".crt",
                "-extfile", name + ".ext", *dates, cwd=self.folder)
        with open(self.path(name + ".crt")) as certificate, open(self.path(name + ".key")) as private:
            self.write(name + ".pem", certificate.read() + private.read())
        os.chmod(self.path(name + ".pem"), 0o600)
        return self.path(name + ".pem")

    def request(self):
        self.write("request", "[req]\ndistinguished_name = dn\nstring_mask = utf8only\nprompt = no\n[dn]\n")
        return "request"

    def revoke(self, name):
        openssl("ca", "-config", "config", "-revoke", name + ".crt", cwd=self.folder)

    def list_revoked(self, name="crl.pem"):
        openssl("ca", "-config", "config", "-gencrl", "-out", name, cwd=self.folder)
        return self.path(name)


PAST = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
FUTURE = ("-startdate", "20400101000000Z", "-enddate", "20490101000000Z")


def roles(*pairs):
    """The extension with roles, as configuration of openssl."""
    lines = ["1.3.6.1.4.1.34601.2.1.1 = ASN1:SET:roles", "[roles]"]
    for index, (role, db) in enumerate(pairs):
        lines.append("grant%d = SEQUENCE:grant%d" % (index, index))
    for index, (role, db) in enumerate(pairs):
        lines += ["[grant%d]" % index, "role = UTF8:%s" % role, "database = UTF8:%s" % db]
    return "\n".join(lines)
