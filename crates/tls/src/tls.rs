//! TLS of a running server: its mode, and the configuration of new connections, which is replaced as a whole.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use nagi_server::{OwnCertificate, TlsMode, TransportSecurity};
use parking_lot::Mutex;

use crate::material::Material;
use crate::members;
use crate::options::TlsOptions;
use crate::session::Session;

/// TLS of a server.
pub struct Tls {
    pub(crate) options: TlsOptions,
    mode: AtomicU8,
    material: ArcSwap<Material>,
    /// Held while files are read again.
    rotating: Mutex<()>,
    /// Handshakes with 1.2 and with 1.3.
    accepted: [AtomicU64; 2],
}

const MODES: [TlsMode; 4] = [TlsMode::Disabled, TlsMode::Allow, TlsMode::Prefer, TlsMode::Require];

impl Tls {
    /// Reads the files. They are read again by [`TransportSecurity::rotate`].
    ///
    /// # Errors
    /// A text that names the option and the file that is unusable.
    pub fn open(options: TlsOptions) -> Result<Arc<Tls>, String> {
        let material = Material::read(&options)?;
        Ok(Arc::new(Tls {
            mode: AtomicU8::new(options.mode as u8),
            options,
            material: ArcSwap::from_pointee(material),
            rotating: Mutex::new(()),
            accepted: Default::default(),
        }))
    }

    /// Texts about the files for the log: keys that others may read, certificates that expire soon.
    pub fn warnings(&self) -> Vec<String> {
        self.material.load().warnings.clone()
    }

    /// Begins the handshake of a connection that a client opened.
    ///
    /// # Errors
    /// A text for the log.
    pub fn accept(self: &Arc<Tls>) -> Result<Session, String> {
        Session::new(self.clone(), self.material.load_full())
    }

    pub(crate) fn count(&self, is_13: bool) {
        self.accepted[usize::from(is_13)].fetch_add(1, Ordering::Relaxed);
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
        let material = Material::read(&self.options)?;
        for warning in &material.warnings {
            log::warn!(target: "NETWORK", id = 8_200_160; "{warning}");
        }
        self.material.store(Arc::new(material));
        Ok(())
    }

    fn own_certificate(&self) -> OwnCertificate {
        self.material.load().own.clone()
    }

    fn is_member(&self, subject: &str) -> bool {
        let material = self.material.load();
        !material.own_attributes.is_empty()
            && members::attributes(subject) == material.own_attributes
    }

    fn accepted_counts(&self) -> [u64; 2] {
        [0, 1].map(|index: usize| self.accepted[index].load(Ordering::Relaxed))
    }
}
