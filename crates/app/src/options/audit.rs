//! The options of the audit log.

use nagi_bson::DocBuf;
use nagi_server::{
    AuditDestination, AuditFormat, AuditOptions, LogDestination, LogRotate, SYSLOG_FACILITIES,
    check_audit_filter,
};

use super::Settings;
use super::typed::SYSLOG;

/// The options that need a destination.
const DEPENDENT: &[&str] = &[
    "auditLog.filter",
    "auditLog.format",
    "auditLog.path",
    "auditLog.runtimeConfiguration",
    "auditLog.schema",
];

/// The audit log that the options configure; `None` without a destination.
pub(super) fn from_settings(
    settings: &Settings,
    log: &LogDestination,
) -> Result<Option<AuditOptions>, String> {
    let Some(destination) = settings.get("auditLog.destination") else {
        let is_set = |value| !["false", "JSON", "mongo"].contains(&value);
        let given = DEPENDENT.iter().find(|key| settings.get(key).is_some_and(is_set));
        return match given {
            Some(key) => Err(format!("BadValue: {key} needs auditLog.destination")),
            None => Ok(None),
        };
    };
    let filter = match settings.get("auditLog.filter") {
        Some(text) => check_audit_filter(text)
            .map_err(|error| format!("BadValue: bad auditLog.filter (--auditFilter): {error}"))?,
        None => DocBuf::new(),
    };
    let format = match settings.get("auditLog.format") {
        Some("BSON") => AuditFormat::Bson,
        _ => AuditFormat::Json,
    };
    let destination = self::destination(settings, destination, log)?;
    if format == AuditFormat::Bson && !matches!(destination, AuditDestination::File { .. }) {
        return Err("BadValue: auditLog.format BSON needs auditLog.destination file".into());
    }
    Ok(Some(AuditOptions {
        destination,
        format,
        ocsf: settings.get("auditLog.schema") == Some("OCSF"),
        filter,
        runtime: settings.is_on("auditLog.runtimeConfiguration"),
    }))
}

fn destination(
    settings: &Settings,
    destination: &str,
    log: &LogDestination,
) -> Result<AuditDestination, String> {
    let path = settings.get("auditLog.path");
    match (destination, path) {
        ("file", Some(path)) => {
            // The audit log is rotated with the server's log, by the same program.
            let reopen = matches!(log, LogDestination::File { rotate: LogRotate::Reopen, .. });
            match log {
                LogDestination::File { path: other, .. } if other.as_os_str() == path => {
                    Err("BadValue: auditLog.path must be another file than systemLog.path".into())
                }
                _ => Ok(AuditDestination::File { path: path.into(), reopen }),
            }
        }
        ("file", None) => {
            Err("BadValue: auditLog.path is required if auditLog.destination is file".into())
        }
        (_, Some(_)) => Err("BadValue: auditLog.path needs auditLog.destination file".into()),
        ("syslog", None) => {
            let name = settings.get("systemLog.syslogFacility").unwrap_or("user");
            let facility =
                SYSLOG_FACILITIES.iter().find(|row| row.0 == name).map_or(1, |row| row.1);
            Ok(AuditDestination::Syslog { socket: SYSLOG.into(), facility })
        }
        _ if settings.is_on("processManagement.fork") => Err(
            "BadValue: auditLog.destination console cannot be used with --fork, which closes the \
                 standard output"
                .into(),
        ),
        _ => Ok(AuditDestination::Console),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, read};

    fn audit(args: &[&str]) -> Result<Option<AuditOptions>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        match read(&args)? {
            Request::Serve(options) => Ok(options.audit),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn destinations_formats_and_filters() {
        assert_eq!(audit(&[]), Ok(None));
        let file = audit(&["--auditDestination", "file", "--auditPath", "/a"]).unwrap().unwrap();
        let path = "/a".into();
        assert_eq!(file.destination, AuditDestination::File { path, reopen: false });
        assert!(file.format == AuditFormat::Json && !file.ocsf && !file.runtime);
        let args = ["--auditDestination", "console", "--auditSchema", "OCSF"];
        assert!(audit(&args).unwrap().unwrap().ocsf);
        let args = ["--auditDestination=console", "--auditFilter", "{atype: {$in: ['logout']}}"];
        assert!(!audit(&args).unwrap().unwrap().filter.as_doc().is_empty());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (args, text) in [
            (&["--auditPath", "/a"][..], "auditLog.path needs auditLog.destination"),
            (&["--auditRuntimeConfiguration"], "auditLog.runtimeConfiguration needs"),
            (&["--auditDestination", "file"], "auditLog.path is required"),
            (
                &["--auditDestination", "console", "--auditPath", "/a"],
                "needs auditLog.destination file",
            ),
            (
                &["--auditDestination", "syslog", "--auditFormat", "BSON"],
                "auditLog.format BSON needs",
            ),
            (&["--auditDestination", "disk"], "bad value 'disk'"),
            (&["--auditDestination", "console", "--auditSchema", "ocsf"], "bad value 'ocsf'"),
            (&["--auditDestination", "console", "--auditFilter", "{a: "], "bad auditLog.filter"),
            (
                &["--auditDestination", "console", "--auditFilter", "{a: {$foo: 1}}"],
                "unknown operator: $foo",
            ),
            (&["--auditDestination", "console", "--auditFilter", "{$where: '1'}"], "$where"),
            (&["--auditCompressionMode", "zstd"], "not compressed or encrypted by the server"),
            (
                &["--fork", "--logpath", "/l", "--auditDestination", "console"],
                "cannot be used with --fork",
            ),
            (
                &["--logpath", "/l", "--auditDestination", "file", "--auditPath", "/l"],
                "must be another file",
            ),
        ] {
            let error = audit(args).unwrap_err();
            assert!(error.contains(text), "{args:?}: {error}");
        }
    }
}
