//! TLS of a running server: its mode, and the configuration of new connections, which is replaced as a whole.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::ArcSwap;
use nagi_server::{OwnCertificate, TlsMode, TransportSecurity};
use parking_lot::Mutex;

use crate::material::Material;
use crate::members;
use crate::options::TlsOptions;
use crate::session::Session;

/// TLS of a server.
pub struct Tls {
    mode: AtomicU8,
    material: ArcSwap<Material>,
    /// Held while files are read again.
    rotating: Mutex<()>,
}

const MODES: [TlsMode; 4] = [TlsMode::Disabled, TlsMode::Allow, TlsMode::Prefer, TlsMode::Require];

impl Tls {
    /// Reads the files. They are read again by [`TransportSecurity::rotate`].
    ///
    /// # Errors
    /// A text that names the option and the file that is unusable.
    pub fn open(options: TlsOptions) -> Result<Arc<Tls>, String> {
        let mode = AtomicU8::new(options.mode as u8);
        let material = Material::read(&Arc::new(options), &Arc::default())?;
        let (material, rotating) = (ArcSwap::from_pointee(material), Mutex::new(()));
        Ok(Arc::new(Tls { mode, material, rotating }))
    }

    /// Texts about the files for the log: keys that others may read, certificates that expire soon.
    pub fn warnings(&self) -> Vec<String> {
        self.material.load().warnings.clone()
    }

    /// Begins the handshake of a connection that a client opened.
    ///
    /// # Errors
    /// A text for the log.
    pub fn accept(&self) -> Result<Session, String> {
        Session::new(self.material.load_full())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl TransportSecurity for Tls {
    fn mode(&self) -> TlsMode {
        MODES[usize::from(self.mode.load(Ordering::Relaxed)) & 3]
    }

    fn set_mode(&self, mode: TlsMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    fn rotate(&self) -> Result<(), String> {
        let _one = self.rotating.lock();
        let now = self.material.load();
        let material = Material::read(&now.options, &now.counts)?;
        for warning in &material.warnings {
            log::warn!(target: "NETWORK", id = 8_200_160, reason = warning.as_str();
                "Warning about the files of TLS");
        }
        self.material.store(Arc::new(material));
        Ok(())
    }

    fn own_certificate(&self) -> OwnCertificate {
        self.material.load().own.clone()
    }

    fn is_member(&self, subject: &str) -> bool {
        let material = self.material.load();
        let found = members::attributes(subject);
        let other = material.options.member_override.as_deref().map(members::attributes);
        !found.is_empty() && (found == material.own_attributes || Some(found) == other)
    }

    fn accepted_counts(&self) -> [u64; 2] {
        self.material.load().counts.get()
    }
}
