"""Certificates for tests, made by openssl: authorities, servers, clients, and lists of revoked ones."""
import os
import shutil
import subprocess

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
KEYS = {
    "ec": EC,
    "p384": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
    "rsa": ["-newkey", "rsa:2048"],
    "rsa1024": ["-newkey", "rsa:1024"],
    "ed25519": ["-newkey", "ed25519"],
}
CA = "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign"
LOCAL = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def openssl(*args, cwd=None, text=""):
    done = subprocess.run(["openssl", *args], cwd=cwd, input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("openssl %s: %s" % (" ".join(args), done.stderr))
    return done.stdout


class Authority:
    """An authority in a folder of its own, which signs certificates and lists those that it revokes."""

    def __init__(self, folder, subject, parent=None, key="ec", extensions=CA, dates=()):
        """With a parent: one whose own certificate that authority has signed. Without: `dates` are arguments of openssl ca."""
        self.folder = folder
        os.makedirs(folder)
        if parent:
            name = os.path.basename(folder)
            parent.sign(name, subject, extensions)
            shutil.copy(parent.path(name + ".crt"), self.path("ca.pem"))
            shutil.copy(parent.path(name + ".key"), self.path("ca.key"))
        else:
            openssl("req", "-x509", *KEYS[key], "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "3650", "-subj", subject,
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
        if not parent and (dates or extensions != CA):
            # Signed by itself once more, with the key that it has.
            self.write("own.ext", extensions + "\n")
            openssl("req", "-new", "-key", "ca.key", "-out", "own.csr", "-subj", subject, "-utf8", "-config", self.request(), cwd=folder)
            openssl("ca", "-batch", "-notext", "-utf8", "-preserveDN", "-selfsign", "-keyfile", "ca.key", "-config", "config", "-in", "own.csr",
                    "-out", "own.pem", "-extfile", "own.ext", *dates, cwd=folder)
            os.replace(self.path("own.pem"), self.file)

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

    def list_revoked(self, name="crl.pem", seconds=None):
        """`seconds`: the list expires after them."""
        expires = ["-crlsec", str(seconds)] if seconds else []
        openssl("ca", "-config", "config", "-gencrl", "-out", name, *expires, cwd=self.folder)
        return self.path(name)


def self_signed(folder, name, subject, *args, key="ec"):
    """A certificate that signs itself, with its key in one file; returns its path."""
    openssl("req", "-x509", *KEYS[key], "-nodes", "-keyout", name + ".key", "-out", name + ".crt", "-days", "3650", "-subj", subject,
            *args, cwd=folder)
    path = os.path.join(folder, name)
    with open(path + ".crt") as certificate, open(path + ".key") as private, open(path + ".pem", "w") as both:
        both.write(certificate.read() + private.read())
    os.chmod(path + ".pem", 0o600)
    return path + ".pem"


def joined(path, *parts):
    """A file with the content of others."""
    with open(path, "w") as out:
        for part in parts:
            with open(part) as f:
                out.write(f.read())
    os.chmod(path, 0o600)
    return path


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
