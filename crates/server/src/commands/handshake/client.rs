//! The client metadata document of the first `hello`.

use std::sync::Arc;

use crate::core::command::prelude::*;
use crate::limits::{APP_NAME_BYTES_MAX, CLIENT_METADATA_BYTES_MAX};
use crate::op::ClientMetadata;

/// Checks and stores `client`. A different document in a later `hello` is refused (186).
pub(super) fn receive(cx: &mut Context<'_>, value: Value<'_>) -> Result<()> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "The client metadata document must be a document, found {}",
            value.kind().name()
        );
    };
    if cx.connection.client.is_some() || cx.connection.hello_seen {
        // Connection pools repeat their `hello` on a connection. The same document again is accepted.
        if cx.connection.client.as_ref().is_some_and(|c| c.doc.as_doc() == doc) {
            return Ok(());
        }
        bail!(
            Code::CLIENT_METADATA_CANNOT_BE_MUTATED,
            "The client metadata document may only be sent in the first hello"
        );
    }
    let app_name = check(doc)?;
    let client = Arc::new(ClientMetadata { doc: doc.to_buf(), app_name: app_name.to_owned() });
    let attr = DocBuf::build(|w| {
        w.put("remote", cx.connection.peer.address.as_str());
        w.put("client", cx.op.description.as_str());
        w.put("negotiatedCompressors", Array::EMPTY);
        w.put("doc", doc);
    });
    let severity = crate::logging::Severity::Info;
    cx.server.log.write(severity, "NETWORK", 51800, "client metadata", attr.as_doc());
    cx.op.set_client(client.clone());
    cx.connection.client = Some(client);
    cx.connection.audit("clientMetadata", Code::OK, |out| {
        out.doc("localEndpoint", |out| cx.connection.write_local(out));
        out.put("clientMetadata", doc);
    });
    Ok(())
}

/// Checks the document, and returns the name of the application.
fn check(doc: Doc<'_>) -> Result<&str> {
    if doc.len() > CLIENT_METADATA_BYTES_MAX {
        bail!(
            Code::CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            "The client metadata document must be less then or equal to \
             {CLIENT_METADATA_BYTES_MAX} bytes"
        );
    }
    let driver = part(doc, "driver")?;
    text(driver, "driver", "name")?;
    text(driver, "driver", "version")?;
    text(part(doc, "os")?, "os", "type")?;
    let app_name = match doc.get("application") {
        Value::Missing => "",
        Value::Doc(application) => match application.get("name") {
            Value::Missing => "",
            Value::String(name) => name,
            _ => bail!(
                Code::TYPE_MISMATCH,
                "The 'application.name' field must be a string in the client metadata document"
            ),
        },
        _ => bail!(
            Code::TYPE_MISMATCH,
            "The 'application' field is required to be a BSON document in the client metadata \
             document"
        ),
    };
    if app_name.len() > APP_NAME_BYTES_MAX {
        bail!(
            Code::CLIENT_METADATA_APP_NAME_TOO_LARGE,
            "The 'application.name' field must be less than or equal to {APP_NAME_BYTES_MAX} bytes \
             in the client metadata document"
        );
    }
    Ok(app_name)
}

fn part<'a>(doc: Doc<'a>, name: &str) -> Result<Doc<'a>> {
    match doc.get(name) {
        Value::Doc(part) => Ok(part),
        Value::Missing => bail!(
            Code::CLIENT_METADATA_MISSING_FIELD,
            "Missing required sub-document '{name}' in the client metadata document"
        ),
        _ => bail!(
            Code::TYPE_MISMATCH,
            "The '{name}' field is required to be a BSON document in the client metadata document"
        ),
    }
}

fn text<'a>(doc: Doc<'a>, part: &str, name: &str) -> Result<&'a str> {
    match doc.get(name) {
        Value::String(text) => Ok(text),
        Value::Missing => bail!(
            Code::CLIENT_METADATA_MISSING_FIELD,
            "Missing required field '{part}.{name}' in the client metadata document"
        ),
        _ => bail!(
            Code::TYPE_MISMATCH,
            "The '{part}.{name}' field must be a string in the client metadata document"
        ),
    }
}
