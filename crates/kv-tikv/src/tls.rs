//! The files for encrypted connections to the cluster: as TiKV's own programs, all or none of them.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// Paths of files in PEM. They are read anew for each connection to the placement drivers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// Certificates of the authorities of the cluster's certificates.
    pub ca: PathBuf,
    /// The certificate by which the cluster knows this node, with those of intermediate authorities.
    pub cert: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
}

impl Tls {
    /// Checks that the files can be used, as far as one can see without the cluster.
    ///
    /// # Errors
    /// What is wrong with which file, for the operator.
    pub fn check(&self) -> Result<(), String> {
        for (path, wanted, name) in [
            (&self.ca, "CERTIFICATE-----", "certificate"),
            (&self.cert, "CERTIFICATE-----", "certificate"),
            (&self.key, "PRIVATE KEY-----", "private key"),
        ] {
            let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let begins = |line: &str| line.starts_with("-----BEGIN ") && line.ends_with(wanted);
            let found = text.lines().map(str::trim_end).find(|line| begins(line));
            match found {
                None => return Err(format!("{}: no {name} in PEM", path.display())),
                Some(line) if line.contains("ENCRYPTED") => {
                    return Err(format!("{}: the private key is encrypted", path.display()));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl Tls {
    /// What it is for connections that the client does not make.
    ///
    /// # Errors
    /// If a file cannot be read any more.
    pub(crate) fn client_config(&self) -> Result<ClientTlsConfig, String> {
        let text = |path: &Path| read(path).map_err(|error| format!("{}: {error}", path.display()));
        let identity = Identity::from_pem(text(&self.cert)?, text(&self.key)?);
        let ca = Certificate::from_pem(text(&self.ca)?);
        Ok(ClientTlsConfig::new().ca_certificate(ca).identity(identity))
    }
}

fn read(path: &Path) -> io::Result<String> {
    // A pipe would not end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    fs::File::open(path)?.take(BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use nagi_testkit::Scratch;

    use super::*;

    #[test]
    fn files_are_checked() {
        let folder = Scratch::new();
        fs::create_dir_all(folder.path()).expect("it can be created");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("it can be written");
            path
        };
        let pem =
            |what: &str| format!("x\n-----BEGIN {what}-----\r\nMA==\r\n-----END {what}-----\r\n");
        let good = Tls {
            ca: file("ca", &pem("CERTIFICATE")),
            cert: file("cert", &pem("CERTIFICATE")),
            key: file("key", &pem("EC PRIVATE KEY")),
        };
        assert_eq!(good.check(), Ok(()));
        let refused = |tls: Tls, why: &str| {
            let error = tls.check().expect_err(why);
            assert!(error.contains(why), "{error}");
        };
        let absent = folder.path().join("absent");
        refused(Tls { ca: absent, ..good.clone() }, "absent: No such file");
        refused(Tls { ca: folder.path().to_owned(), ..good.clone() }, "not a regular file");
        refused(Tls { cert: good.key.clone(), ..good.clone() }, "key: no certificate in PEM");
        refused(Tls { key: good.ca.clone(), ..good.clone() }, "ca: no private key in PEM");
        let encrypted = file("encrypted", &pem("ENCRYPTED PRIVATE KEY"));
        refused(Tls { key: encrypted, ..good.clone() }, "the private key is encrypted");
    }
}
