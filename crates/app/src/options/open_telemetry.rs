//! The options `net.openTelemetry`.

use std::path::PathBuf;
use std::time::Duration;

use nagi_otlp::OtlpOptions;

use super::Settings;

/// The key of the option without which nothing is sent.
const ENDPOINT: &str = "net.openTelemetry.endpoint";

/// Options that mean nothing without it.
const DEPENDENT: &[&str] = &["net.openTelemetry.CAFile", "net.openTelemetry.headersFile"];

const INTERVAL_MS: u64 = 10_000;
const SAMPLE_RATIO: f64 = 0.01;

/// OpenTelemetry as it is configured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OtlpSettings {
    /// The headers are not read yet.
    pub(crate) options: OtlpOptions,
    pub(crate) headers_file: Option<PathBuf>,
}

/// The options; `None` without an endpoint.
pub(super) fn from_settings(settings: &Settings) -> Result<Option<OtlpSettings>, String> {
    let endpoint = settings.get(ENDPOINT).unwrap_or("").trim_end_matches('/');
    if endpoint.is_empty() {
        return match DEPENDENT.iter().find(|key| settings.get(key).is_some()) {
            Some(key) => Err(format!("BadValue: {key} needs {ENDPOINT}")),
            None => Ok(None),
        };
    }
    let headers_file = settings.get("net.openTelemetry.headersFile").map(PathBuf::from);
    OtlpOptions::check_endpoint(endpoint, headers_file.is_some()).map_err(|why| {
        format!("BadValue: bad value '{endpoint}' for {ENDPOINT} (--otlpEndpoint): {why}")
    })?;
    let number = |key: &str| settings.get(key).and_then(|text| text.parse().ok());
    let ratio = settings.get("net.openTelemetry.sampleRatio").and_then(|text| text.parse().ok());
    Ok(Some(OtlpSettings {
        options: OtlpOptions {
            endpoint: endpoint.to_owned(),
            headers: Vec::new(),
            ca_file: settings.get("net.openTelemetry.CAFile").map(PathBuf::from),
            sample_ratio: ratio.unwrap_or(SAMPLE_RATIO),
            interval: Duration::from_millis(
                number("net.openTelemetry.intervalMillis").unwrap_or(INTERVAL_MS),
            ),
        },
        headers_file,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, read};

    fn of(args: &[&str]) -> Result<Option<OtlpSettings>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        match read(&args)? {
            Request::Serve(options) => Ok(options.open_telemetry),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        assert_eq!(of(&[]), Ok(None));
        let error = of(&["--otlpHeadersFile", "/h"]).expect_err("no endpoint");
        assert!(error.contains("net.openTelemetry.headersFile needs"), "{error}");
        let args = ["--otlpEndpoint", "http://127.0.0.1:4318/", "--otlpIntervalMillis", "500"];
        let settings = of(&args).expect("options").expect("an endpoint");
        assert_eq!(settings.options.endpoint, "http://127.0.0.1:4318");
        assert_eq!(settings.options.interval.as_millis(), 500);
        assert_eq!(settings.options.sample_ratio, 0.01);
        for bad in [
            &["--otlpEndpoint", "127.0.0.1:4318"][..],
            &["--otlpEndpoint", "http://example.com", "--otlpHeadersFile", "/h"],
            &["--otlpEndpoint", "http://x", "--otlpSampleRatio", "1.5"],
            &["--otlpEndpoint", "http://x", "--otlpIntervalMillis", "10"],
        ] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}
