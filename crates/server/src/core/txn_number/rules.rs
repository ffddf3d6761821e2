//! Which commands may carry a transaction number: checks that need only the request, not the session.

use nagi_error::{Code, Result, bail};

use crate::request::{Generic, Request};

/// Refuses `autocommit` and `txnNumber` of a command that needs no login, whether its client has logged in or not: it
/// has no part in a session. Precedes all other checks of these fields.
pub(crate) fn check_before_login(request: &Request<'_>) -> Result<()> {
    let generic = &request.generic;
    if !request.command.before_login {
        return Ok(());
    }
    if generic.autocommit.is_some() {
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "This command is not supported in transactions"
        );
    }
    if generic.txn_number.is_some() {
        bail!(Code::Location(50889), "It is illegal to provide a txnNumber for this command");
    }
    Ok(())
}

/// Checks `txnNumber`, `autocommit`, `startTransaction` and the fields that depend on them.
pub(crate) fn check(request: &Request<'_>, is_replicated: bool) -> Result<()> {
    let generic = &request.generic;
    let Some(number) = generic.txn_number else { return check_unnumbered(generic) };
    if generic.given_session.is_none() {
        bail!(
            Code::INVALID_OPTIONS,
            "Transaction number requires a session ID to also be specified"
        );
    }
    if !is_replicated {
        bail!(
            Code::ILLEGAL_OPERATION,
            "Transaction numbers are only allowed on a replica set member or mongos"
        );
    }
    if number < 0 {
        bail!(Code::INVALID_OPTIONS, "Transaction number cannot be negative");
    }
    match generic.autocommit {
        Some(false) => check_statement(request),
        Some(true) => bail!(Code::INVALID_OPTIONS, "Specifying autocommit=true is not allowed."),
        None => check_retryable(request),
    }
}

fn check_unnumbered(generic: &Generic<'_>) -> Result<()> {
    if generic.start_transaction.is_some() && generic.autocommit.is_none() {
        bail!(
            Code::INVALID_OPTIONS,
            "'startTransaction' field requires 'autocommit' field to also be specified"
        );
    }
    if generic.autocommit.is_some() {
        bail!(
            Code::INVALID_OPTIONS,
            "'autocommit' field requires a transaction number to also be specified"
        );
    }
    Ok(())
}

fn check_retryable(request: &Request<'_>) -> Result<()> {
    if request.generic.start_transaction.is_some() {
        bail!(
            Code::INVALID_OPTIONS,
            "'startTransaction' field requires 'autocommit' field to also be specified"
        );
    }
    if !request.command.retryable {
        bail!(
            Code::NOT_A_RETRYABLE_WRITE_COMMAND,
            "txnNumber may only be provided for multi-document transactions and retryable write \
             commands. autocommit:false was not provided, and {} is not a retryable write command.",
            request.command.name
        );
    }
    Ok(())
}

/// Checks a command with `autocommit: false`.
fn check_statement(request: &Request<'_>) -> Result<()> {
    let (command, generic) = (request.command, &request.generic);
    if generic.start_transaction == Some(false) {
        bail!(Code::INVALID_OPTIONS, "Specifying startTransaction=false is not allowed.");
    }
    if command.ends_transaction {
        return check_start(request);
    }
    if !command.in_transaction {
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot run '{}' in a multi-document transaction.{}",
            command.name,
            command.transaction_advice
        );
    }
    let system = matches!(request.db, "config" | "local")
        || (request.db == "admin" && command.on_collection);
    if system {
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot run command against the '{}' database in a transaction.",
            request.db
        );
    }
    check_start(request)?;
    if generic.write_concern.is_some() {
        bail!(
            Code::INVALID_OPTIONS,
            "writeConcern is not allowed within a multi-statement transaction"
        );
    }
    check_read_concern(generic)
}

/// A transaction begins with a statement that reads or writes.
fn check_start(request: &Request<'_>) -> Result<()> {
    let refused = request.command.begins_no_transaction;
    if request.generic.start_transaction.is_none() || refused.is_empty() {
        return Ok(());
    }
    bail!(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, "{refused}")
}

fn check_read_concern(generic: &Generic<'_>) -> Result<()> {
    let concern = &generic.read_concern;
    if concern.is_given && generic.start_transaction.is_none() {
        bail!(
            Code::INVALID_OPTIONS,
            "Only the first command in a transaction may specify a readConcern"
        );
    }
    if !matches!(concern.level, None | Some("local" | "majority" | "snapshot")) {
        bail!(
            Code::INVALID_OPTIONS,
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in \
             order to run in a transaction"
        );
    }
    Ok(())
}
