//! Spans as OTLP's `ExportTraceServiceRequest`, with the attributes of OpenTelemetry's conventions for databases.

use nagi_server::Span;

use crate::protobuf::Message;
use crate::resource::Resource;

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: i64 = 2;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: i64 = 2;

/// The bytes of the request.
pub(crate) fn encode(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    Message::build(|out| {
        out.message(1, |out| {
            resource.write(out, |scope| {
                spans.iter().for_each(|span| scope.message(2, |out| write(resource, span, out)));
            });
        });
    })
}

fn write(resource: &Resource, span: &Span, out: &mut Message) {
    out.bytes(1, &span.trace_id);
    out.bytes(2, &span.id);
    if let Some(parent) = &span.parent {
        out.bytes(4, parent);
    }
    let target = if span.collection.is_empty() { &span.database } else { &span.collection };
    out.text(5, &format!("{} {target}", span.operation));
    out.int(6, KIND_SERVER);
    out.fixed64(7, span.begin_ns);
    out.fixed64(8, span.end_ns);
    // The protocol is MongoDB's, by which tools recognize it.
    out.attribute(9, "db.system.name", "mongodb");
    out.attribute(9, "db.namespace", &span.database);
    if !span.collection.is_empty() {
        out.attribute(9, "db.collection.name", &span.collection);
    }
    out.attribute(9, "db.operation.name", span.operation);
    let (host, port) = resource.address();
    out.attribute(9, "server.address", host);
    if let Some(port) = port {
        out.number_attribute(9, "server.port", i64::from(port));
    }
    write_client(&span.client, out);
    if let Some(returned) = span.returned {
        let returned = i64::try_from(returned).unwrap_or(i64::MAX);
        out.number_attribute(9, "db.response.returned_rows", returned);
    }
    if !span.plan_summary.is_empty() {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        out.attribute(9, "nagi.plan", &span.plan_summary);
        out.number_attribute(9, "nagi.keys_examined", count(span.keys_examined));
        out.number_attribute(9, "nagi.documents_examined", count(span.docs_examined));
    }
    if let Some((code, name)) = &span.error {
        // Not its text, which may contain values.
        out.attribute(9, "error.type", name);
        out.attribute(9, "db.response.status_code", &code.to_string());
        out.message(15, |status| status.int(3, STATUS_ERROR));
    }
}

/// `127.0.0.1:50123`, `[::1]:50123`, or a text for a Unix socket.
fn write_client(client: &str, out: &mut Message) {
    let address = client.rsplit_once(':');
    if let Some((host, Ok(port))) = address.map(|(host, port)| (host, port.parse::<u16>())) {
        out.attribute(9, "client.address", host.trim_matches(['[', ']']));
        out.number_attribute(9, "client.port", i64::from(port));
    }
}
