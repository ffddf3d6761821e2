//! What all messages begin with: which program they come from.

use crate::protobuf::Message;

/// The program that sends telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) service_name: String,
    pub(crate) version: String,
    /// Host and port.
    pub(crate) instance: String,
}

impl Resource {
    /// Writes `resource` (field 1) and the only scope (field 2), whose items `fill` writes as fields 2.
    pub(crate) fn write(&self, out: &mut Message, fill: impl FnOnce(&mut Message)) {
        let (host, port) = self.address();
        out.message(1, |resource| {
            resource.attribute(1, "service.name", &self.service_name);
            resource.attribute(1, "service.version", &self.version);
            resource.attribute(1, "service.instance.id", &self.instance);
            resource.attribute(1, "host.name", host);
            resource.number_attribute(1, "process.pid", i64::from(std::process::id()));
            if let Some(port) = port {
                resource.number_attribute(1, "server.port", i64::from(port));
            }
        });
        out.message(2, |scope| {
            scope.message(1, |of| {
                of.text(1, "nagi");
                of.text(2, &self.version);
            });
            fill(scope);
        });
    }

    /// The host, and the port if there is one.
    pub(crate) fn address(&self) -> (&str, Option<u16>) {
        match self.instance.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (&self.instance, None),
        }
    }
}
