//! `validate`: reads all data of a collection and compares records, index keys and counters.

use std::cell::Cell;

use nagi_store::{
    BuildOptions, Collection, Repaired, ValidateReport, ValidateStep, lost_and_found,
};

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;
use crate::op::Op;

pub(in crate::commands) static VALIDATE: Command = Command {
    facts: Facts {
        name: "validate",
        help: "Checks records and indexes of a collection against each other.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Validate]),
    run,
    ..Command::ROW
};

args! { "validate" => Args {
    collection:        Name<'a>  = "validate",
    full:              Truthy    = "full",
    repair:            Truthy    = "repair",
    metadata:          Truthy    = "metadata",
    scandata:          Truthy    = "scandata",
    background:        Truthy    = "background",
    check_conformance: Truthy    = "checkBSONConformance",
    enforce_fast:      Truthy    = "enforceFastCount",
    fix_multikey:      Option<Truthy> = "fixMultikey",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let asked = namespace(req.db, args.collection.0)?;
    check(&args)?;
    // Of a time series, the buckets are what is stored.
    let ns = cx.store().buckets_of(&asked).map_or(asked, |buckets| buckets.namespace.clone());
    refuse_view(cx, &ns)?;
    let Some(mut collection) = cx.store().collection(&ns) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "Collection '{ns}' does not exist to validate.");
    };
    if args.metadata.0 {
        return report_metadata(&collection, out);
    }
    if !args.repair.0 && args.fix_multikey != Some(Truthy(true)) {
        cx.end_with_client();
    }
    let meter = Meter::default();
    let check = || cx.check();
    let watch = |step: ValidateStep| {
        meter.step(cx.op, step);
        cx.check()
    };
    let memory = crate::commands::index::build_memory(cx.server);
    let options = BuildOptions {
        interrupt: Some(&check),
        memory_bytes: Some(memory),
        ..BuildOptions::default()
    };
    let conformance = args.check_conformance.0;
    let mut report = cx.store().validate_with(&collection, conformance, &watch)?;
    let repaired = match args.repair.0 {
        true => cx.store().repair(&collection, &report, options)?,
        false => Repaired::default(),
    };
    if repaired.any {
        if let Some(newest) = cx.store().collection(&ns) {
            collection = newest;
        }
        report = cx.store().validate_with(&collection, conformance, &watch)?;
    }
    if args.full.0 {
        report.errors.extend(cx.store().verify_files(&mut || check())?);
    }
    out.put("ns", ns.as_str());
    put_uuid(&collection, out);
    out.put("nInvalidDocuments", report.invalid_count);
    let non_compliant =
        report.non_compliant_count + report.invalid_by_schema + report.faulty_buckets;
    out.put("nNonCompliantDocuments", non_compliant);
    out.put("nrecords", report.record_count);
    out.put("nIndexes", collection.indexes.len() as i32);
    out.doc("keysPerIndex", |doc| {
        for (name, count) in &report.index_keys {
            doc.put(name, *count);
        }
    });
    out.doc("indexDetails", |doc| {
        for (name, _) in &report.index_keys {
            let valid = !report.wrong_indexes.contains(name);
            doc.doc(name, |index| index.put("valid", valid));
        }
    });
    out.put("valid", report.errors.is_empty() && report.wrong_buckets == 0);
    out.put("repaired", repaired.any);
    write_findings(&collection, &report, repaired, out);
    Ok(())
}

/// Progress for currentOp.
#[derive(Default)]
struct Meter {
    /// The step that is shown, without its fraction of [`SHOWN_EACH`].
    shown: Cell<Option<(&'static str, i64)>>,
}

/// Records or entries between two changes of what is shown, for its text is formatted anew.
const SHOWN_EACH: i64 = 512;

impl Meter {
    fn step(&self, op: &Op, step: ValidateStep) {
        let shown = Some((step.name, step.done / SHOWN_EACH));
        if self.shown.replace(shown) != shown {
            op.set_progress(step.name, step.done, step.total);
        }
    }
}

const FAULTY_BUCKETS: &str = "Detected one or more documents in this collection incompatible with \
                              time-series specifications. For more info, see logs with log id \
                              6698300.";

fn write_findings(
    collection: &Collection,
    report: &ValidateReport,
    repaired: Repaired,
    out: &mut DocWriter<'_>,
) {
    let removed = repaired.corrupt_records;
    out.array("warnings", |list| {
        if removed > 0 {
            let kept = lost_and_found(collection);
            list.push(
                format!("Removed {removed} corrupt records; their bytes are in {kept}.").as_str(),
            );
        }
        if report.non_compliant_count > 0 {
            list.push("Detected one or more documents not compliant with BSON specifications.");
        }
        if report.invalid_by_schema > 0 {
            list.push(
                "Detected one or more documents not compliant with the collection's schema. Check \
                 logs for log id 5363500.",
            );
        }
        if report.faulty_buckets > report.wrong_buckets {
            list.push(FAULTY_BUCKETS);
        }
    });
    out.array("errors", |list| {
        report.errors.iter().for_each(|error| list.push(error));
        if report.wrong_buckets > 0 {
            list.push(FAULTY_BUCKETS);
        }
    });
    out.put("extraIndexEntries", Array::EMPTY);
    out.array("missingIndexEntries", |list| {
        for (index, record) in &report.missing_entries {
            list.doc(|entry| {
                entry.put("indexName", &**index);
                entry.put("recordId", record.key().value());
            });
        }
    });
    out.array("corruptRecords", |list| {
        report.corrupt_records.iter().for_each(|record| list.push(record.key().value()));
    });
    if removed > 0 {
        out.put("numRemovedCorruptRecords", removed);
    }
}

/// Refuses options that exclude each other (72). `background` and `scandata` change nothing: the check always
/// reads all data, in one snapshot, concurrently with writers. `full` adds the checksums of the files.
fn check(args: &Args<'_>) -> Result<()> {
    let (full, background) = (args.full.0, args.background.0);
    let (repair, metadata) = (args.repair.0, args.metadata.0);
    let conformance = args.check_conformance.0;
    let message = match () {
        () if background && full => {
            "Running the validate command with both { background: true } and { full: true } is not \
             supported."
        }
        () if background && repair => {
            "Running the validate command with { background: true } and { repair: true } is not \
             supported."
        }
        () if background && args.enforce_fast.0 => {
            "Running the validate command with both { background: true } and { enforceFastCount: \
             true } is not supported."
        }
        () if conformance && repair => {
            "Running the validate command with both { checkBSONConformance: true } and { repair: \
             true } is not supported."
        }
        () if metadata && (full || background || repair || conformance) => {
            "Running the validate command with { metadata: true } is not supported with any other \
             options"
        }
        () if repair && args.fix_multikey == Some(Truthy(false)) => {
            "Running the validate command with { fixMultikey: false } and { repair: true } is not \
             supported"
        }
        () => return Ok(()),
    };
    bail!(Code::INVALID_OPTIONS, "{message}");
}

/// Replies to `metadata: true`. Only the catalog entry is checked, and it was parsed when it was loaded.
fn report_metadata(collection: &Collection, out: &mut DocWriter<'_>) -> Result<()> {
    out.put("ns", collection.namespace.as_str());
    put_uuid(collection, out);
    out.put("nIndexes", collection.indexes.len() as i32);
    out.doc("indexDetails", |doc| {
        for index in &collection.indexes {
            doc.doc(index.name(), |index| index.put("valid", true));
        }
    });
    out.put("valid", true);
    out.put("repaired", false);
    out.put("warnings", Array::EMPTY);
    out.put("errors", Array::EMPTY);
    Ok(())
}

fn put_uuid(collection: &Collection, out: &mut DocWriter<'_>) {
    let bytes = &collection.uuid.0;
    out.put("uuid", Value::Binary(nagi_bson::Binary { subtype: 4, bytes }));
}
