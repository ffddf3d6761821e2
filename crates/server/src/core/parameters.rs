//! Server parameters at run time: `getParameter` shows them, `setParameter` changes and applies them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nagi_bson::{DocBuf, DocWriter, Value, json};
use nagi_error::{Code, Result, bail};
use zeroize::Zeroize;

use crate::audit::AuditLog;
use crate::cache_size::CacheSize;
use crate::core::server::Server;
use crate::diagnostic_data::Place;
use crate::directory::DirectorySetting;
use crate::logging::{COMPONENTS, Severity};
use crate::settings::identity_providers;
use crate::settings::params::{
    self, Checked,
    Effect::Told,
    Kind,
    Kind::{Bool, Directory, Double, Int, List, Mode, Size, Special, Text, Word},
    PARAMETERS, Parameters,
    SetAt::{Both, Running, Startup},
    find, is_default, set_verbosity,
};
use crate::transport_security::TlsMode;

impl Parameters {
    /// Appends the parameter `name` if there is one.
    pub(crate) fn show(&self, server: &Server, name: &str, out: &mut DocWriter<'_>) {
        if let Some(index) = find(name) {
            self.write(server, index, out);
        }
    }

    /// Appends `name: value`.
    pub(crate) fn write(&self, server: &Server, index: usize, out: &mut DocWriter<'_>) {
        let param = &PARAMETERS[index];
        let number = self.numbers[index].load(Relaxed);
        match param.kind {
            Bool(_) => out.put(param.name, number != 0),
            Int(..) => match i32::try_from(number) {
                Ok(small) => out.put(param.name, small),
                Err(_) => out.put(param.name, number),
            },
            Double(..) => out.put(param.name, f64::from_bits(number as u64)),
            List(..) => {
                let texts = self.texts.read();
                out.array(param.name, |list| texts[index].split(',').for_each(|t| list.push(t)));
            }
            Text(_) | Size(_) | Word(..) => {
                out.put(param.name, self.texts.read()[index].as_str());
            }
            Mode(old) => out.put(param.name, mode(server).name(old)),
            Directory(setting) => write_directory(server, param.name, setting, out),
            Kind::Providers => {
                server.auth.tokens.with_providers(|all| identity_providers::write(all, out));
            }
            Special => special(server, param.name, out),
        }
    }

    /// Checks that `setParameter` may set a parameter on this server.
    ///
    /// # Errors
    /// 20 for one that can only be set at the start, 2 for one that `setAuditConfig` sets instead.
    pub(crate) fn check_settable(&self, server: &Server, index: usize) -> Result<()> {
        const SUCCESSES: usize = params::position("auditAuthorizationSuccess");
        params::check_run_time(index)?;
        if index == SUCCESSES && server.audit.as_ref().is_some_and(AuditLog::is_runtime) {
            bail!(
                Code::BAD_VALUE,
                "auditAuthorizationSuccess may not be changed via setParameter while the audit log is \
                 configured at run time: use setAuditConfig"
            );
        }
        Ok(())
    }

    /// Runs `setParameter`: stores and applies a value that was checked.
    pub(crate) fn set(&self, server: &Arc<Server>, index: usize, value: Checked) -> Result<()> {
        if let Checked::Verbosity(spec) = value {
            return set_verbosity(Some(&server.log), "", spec.as_doc());
        }
        if let Checked::Directory(setting, text) = value {
            return set_directory(server, PARAMETERS[index].name, setting, text);
        }
        if let Checked::Mode(mode) = value {
            return set_mode(server, index, mode);
        }
        if let Checked::Providers(providers) = value {
            return server.auth.tokens.configure(providers);
        }
        if let (DIAGNOSTIC_FOLDER, Checked::Text(path)) = (index, &value) {
            return set_diagnostic_folder(server, path);
        }
        self.check_file_size(index, &value)?;
        self.store(index, value);
        self.apply(server, index, false);
        Ok(())
    }

    /// `at_start`: a shell is to show what is logged as a warning of the start.
    fn apply(&self, server: &Server, index: usize, at_start: bool) {
        let name = PARAMETERS[index].name;
        match name {
            "internalQueryStatsCacheSize" => {
                if let Some(size) = CacheSize::parse(&self.texts.read()[index]) {
                    server.query_stats.resize(server.budget(), size);
                }
            }
            "jsHeapLimitMB" => {
                if let Some(engines) = &server.engines {
                    engines.set_heap_limit((self.int(name) as usize) << 20);
                }
            }
            "logComponentVerbosity" => {
                // The value was checked when it was set.
                if let Ok(spec) = json::parse(&self.texts.read()[index]) {
                    let _ = set_verbosity(Some(&server.log), "", spec.as_doc());
                }
            }
            identity_providers::NAME => {
                // The text was checked when it was set.
                let text = self.texts.read()[index].clone();
                if !text.is_empty()
                    && let Err(error) = identity_providers::parse(Value::String(&text))
                        .and_then(|providers| server.auth.tokens.configure(providers))
                {
                    log::warn!(target: "ACCESS", id = 8_200_190, error = error.message();
                        "The identity providers are not used");
                }
            }
            "logLevel" => server.log.set_verbosity(self.int(name) as i32),
            "maxLogSizeKB" => server.log.set_attribute_kib_max(self.int(name)),
            "redactClientLogData" => server.log.set_redaction(self.int(name) != 0),
            "storageEngineConcurrentReadTransactions" | "wiredTigerConcurrentReadTransactions" => {
                server.clients.tickets.read.resize(self.int(name));
            }
            "storageEngineConcurrentWriteTransactions"
            | "wiredTigerConcurrentWriteTransactions" => {
                server.clients.tickets.write.resize(self.int(name));
            }
            "storageEngineConcurrencyAdjustmentAlgorithm" => {
                let fixed = self.texts.read()[index] == "fixedConcurrentTransactions";
                server.clients.tickets.write.fix(fixed);
            }
            _ => {
                if let Told(instead) = PARAMETERS[index].effect {
                    self.tell(server, index, instead, at_start);
                }
            }
        }
    }

    /// Logs which setting applies instead of a parameter that has no effect.
    fn tell(&self, server: &Server, index: usize, instead: &str, at_start: bool) {
        let param = &PARAMETERS[index];
        let texts = self.texts.read();
        let value = match param.kind {
            Bool(_) => Value::Bool(self.number(index) != 0),
            Int(..) => Value::Int64(self.number(index)),
            Double(..) => Value::Double(f64::from_bits(self.number(index) as u64)),
            Text(_) | Size(_) | Word(..) | List(..) => Value::String(&texts[index]),
            Mode(_) | Directory(_) | Kind::Providers | Special => return,
        };
        if !is_default(param.kind, value) {
            let text = format!("{}: {instead}", param.name);
            let attr = DocBuf::build(|doc| doc.put("parameter", param.name));
            let log = &server.log;
            match at_start {
                true => log.startup_warning("CONTROL", 8_200_043, &text, attr.as_doc()),
                false => log.write(Severity::Warning, "CONTROL", 8_200_044, &text, attr.as_doc()),
            }
        }
    }

    /// Applies all values once, at the start.
    pub(crate) fn apply_all(&self, server: &Arc<Server>) {
        (0..PARAMETERS.len()).for_each(|index| self.apply(server, index, true));
    }
}

const DIAGNOSTIC_FOLDER: usize = params::position("diagnosticDataCollectionDirectoryPath");

impl Server {
    /// Stores diagnostic data in a folder from now on, and shows it as the parameter's value. False if there is one
    /// already: then that stays.
    pub(crate) fn set_diagnostic_data_folder(&self, folder: &Path) -> bool {
        let place = Place { folder: folder.to_owned(), keys: self.keys.clone() };
        let is_new = self.upkeep.diagnostic_data.set_place(place);
        if is_new {
            let shown = Checked::Text(folder.display().to_string());
            self.settings.params.store(DIAGNOSTIC_FOLDER, shown);
        }
        is_new
    }
}

/// Sets the folder of diagnostic data, which a server without a data directory has not.
fn set_diagnostic_folder(server: &Server, path: &str) -> Result<()> {
    if let Some(place) = server.upkeep.diagnostic_data.place() {
        bail!(
            Code::FTDC_PATH_ALREADY_SET,
            "FTDC path has already been set to '{}'. It cannot be changed.",
            place.folder.display()
        );
    }
    let absolute = std::path::absolute(path);
    let Ok(folder) = absolute.as_deref() else {
        bail!(Code::BAD_VALUE, "The path of diagnostic data cannot be '{path}'");
    };
    server.set_diagnostic_data_folder(folder);
    Ok(())
}

fn mode(server: &Server) -> TlsMode {
    server.tls.as_ref().map_or(TlsMode::Disabled, |tls| tls.mode())
}

/// Changes the mode of TLS to the next stricter one, as a set is moved to TLS without a restart.
fn set_mode(server: &Server, index: usize, wanted: TlsMode) -> Result<()> {
    let now = mode(server);
    match (&server.tls, now, wanted) {
        (Some(tls), TlsMode::Allow, TlsMode::Prefer) => tls.set_mode(wanted),
        (Some(tls), TlsMode::Prefer, TlsMode::Require) => tls.set_mode(wanted),
        _ => {
            let param = &PARAMETERS[index];
            let old = matches!(param.kind, Mode(true));
            bail!(
                Code::BAD_VALUE,
                "Illegal state transition for {}, attempt to change from {} to {}",
                param.name,
                now.name(old),
                wanted.name(old)
            );
        }
    }
    Ok(())
}

/// Writes a setting of the directory; without one it is empty.
fn write_directory(
    server: &Server,
    name: &str,
    setting: DirectorySetting,
    out: &mut DocWriter<'_>,
) {
    let text = server.auth.directory.directory().map(|d| d.shown(setting)).unwrap_or_default();
    match (setting, text.parse::<i32>()) {
        (DirectorySetting::TimeoutMs, Ok(ms)) => out.put(name, ms),
        (DirectorySetting::TimeoutMs, Err(_)) => out.put(name, 10_000),
        _ => out.put(name, text.as_str()),
    }
}

/// Changes a setting of the directory. Users are read again: they may be others, or have other roles.
fn set_directory(
    server: &Server,
    name: &str,
    setting: DirectorySetting,
    mut text: String,
) -> Result<()> {
    let Some(directory) = server.auth.directory.directory() else {
        bail!(
            Code::BAD_VALUE,
            "Invalid value for parameter {name}: LDAP is not configured (security.ldap.servers)"
        );
    };
    let done = directory.set(setting, &text);
    text.zeroize();
    if let Err(why) = done {
        bail!(Code::BAD_VALUE, "Invalid value for parameter {name}: {why}");
    }
    server.auth.directory.invalidate();
    server.auth.changed();
    Ok(())
}

/// Writes a parameter whose value is not stored in the table of parameters.
fn special(server: &Server, name: &str, out: &mut DocWriter<'_>) {
    match name {
        "featureCompatibilityVersion" => {
            out.doc(name, |fcv| fcv.put("version", server.fcv()));
        }
        "logComponentVerbosity" => out.doc(name, |doc| {
            doc.put("verbosity", server.log.verbosity());
            let components = || COMPONENTS.iter().map(|row| row.1).enumerate();
            let level = |index| server.log.component_verbosity(index);
            for (index, outer) in components().filter(|(_, path)| !path.contains('.')) {
                doc.doc(outer, |one| {
                    one.put("verbosity", level(index));
                    for (index, path) in components() {
                        if let Some((_, name)) = path.split_once('.').filter(|(of, _)| *of == outer)
                        {
                            one.doc(name, |inner| inner.put("verbosity", level(index)));
                        }
                    }
                });
            }
        }),
        _ => {}
    }
}

/// Writes all parameters, for `getParameter: "*"`.
pub(crate) fn write_all(server: &Server, out: &mut DocWriter<'_>) {
    (0..PARAMETERS.len()).for_each(|index| server.settings.params.write(server, index, out));
}

/// `{name: {value, settableAtRuntime, settableAtStartup}}`.
pub(crate) fn write_details(server: &Server, index: usize, out: &mut DocWriter<'_>) {
    let value = DocBuf::build(|w| server.settings.params.write(server, index, w));
    let param = &PARAMETERS[index];
    out.doc(param.name, |doc| {
        doc.put("value", value.as_doc().first().map_or(Value::Missing, |e| e.value()));
        doc.put("settableAtRuntime", matches!(param.set_at, Both | Running));
        doc.put("settableAtStartup", matches!(param.set_at, Startup | Both));
    });
}
