//! Time series collections in the catalog: created, changed, dropped, and their buckets' expiry.

use nagi_bson::{Doc, Value, doc};
use nagi_error::Result;
use nagi_store::{BuildOptions, Catalog, CollMod, Namespace, Rename, WriteOptions, listed_options};

use crate::support::{Fixture, error, parse};

fn series() -> (Fixture, Namespace, Namespace) {
    let namespace = Namespace::parse("d.s").unwrap();
    let buckets = namespace.buckets().unwrap();
    (Fixture::new(), namespace, buckets)
}

fn create(f: &Fixture, namespace: &Namespace, options: &str) -> Result<()> {
    f.store.create_collection(namespace, parse(options).as_doc()).map(drop)
}

fn names(f: &Fixture) -> Vec<String> {
    f.store.catalog().database("d").map(|c| c.namespace.to_string()).collect()
}

#[test]
fn both_halves_are_created_stored_and_dropped() {
    let (mut f, namespace, buckets) = series();
    let options = "{timeseries: {timeField: 't', metaField: 'm'}, expireAfterSeconds: 60}";
    create(&f, &namespace, options).unwrap();
    create(&f, &namespace, options).unwrap();
    assert_eq!(names(&f), ["d.c", "d.s", "d.system.buckets.s"]);
    for _ in 0..2 {
        let view = f.store.collection(&namespace).unwrap();
        assert_eq!(
            view.options.doc.as_doc().to_string(),
            "{ viewOn: \"system.buckets.s\", pipeline: [ { $_internalUnpackBucket: { timeField: \"t\", \
             metaField: \"m\", bucketMaxSpanSeconds: 3600 } } ] }"
        );
        let found = f.store.buckets_of(&namespace).unwrap();
        assert_eq!(found.options.doc.get("clusteredIndex"), Value::Bool(true));
        assert_eq!(
            listed_options(&found).as_doc().to_string(),
            "{ timeseries: { timeField: \"t\", metaField: \"m\", granularity: \"seconds\", \
             bucketMaxSpanSeconds: 3600 }, expireAfterSeconds: 60 }"
        );
        let indexes: Vec<_> = found.indexes.iter().map(|index| index.name().to_owned()).collect();
        assert_eq!(indexes, ["_id_", "m_1_t_1"]);
        f.reopen();
    }
    for other in [
        "{}",
        "{timeseries: {timeField: 't'}}",
        "{timeseries: {timeField: 't', metaField: 'm', granularity: 'hours'}, expireAfterSeconds: 60}",
        "{viewOn: 'c', pipeline: []}",
    ] {
        assert!(error(create(&f, &namespace, other)).starts_with("48"), "{other}");
    }
    let c = Namespace::parse("d.c").unwrap();
    assert!(error(create(&f, &c, options)).starts_with("48"));
    assert_eq!(names(&f), ["d.c", "d.s", "d.system.buckets.s"], "nothing half created");
    // Dropping either half drops both.
    f.store.drop_collection(&namespace).unwrap().unwrap();
    assert_eq!(names(&f), ["d.c"]);
    create(&f, &namespace, options).unwrap();
    f.store.drop_collection(&buckets).unwrap().unwrap();
    assert_eq!(names(&f), ["d.c"]);
    f.reopen();
    assert_eq!(names(&f), ["d.c"]);
    let long = Namespace::new("d", &"c".repeat(240)).unwrap();
    assert!(error(create(&f, &long, options)).starts_with("73"));
}

#[test]
fn lone_buckets_keep_their_name() {
    let (mut f, namespace, buckets) = series();
    create(&f, &buckets, "{timeseries: {timeField: 't', metaField: 'm'}}").unwrap();
    assert_eq!(names(&f), ["d.c", "d.system.buckets.s"]);
    let c = Namespace::parse("d.c").unwrap();
    for _ in 0..2 {
        assert!(f.store.buckets_of(&namespace).is_none());
        assert!(f.store.written_buckets_of(&namespace).is_some());
        assert!(f.store.written_buckets_of(&buckets).is_none());
        assert!(f.store.written_buckets_of(&c).is_none());
        let conflict = "48: Conflicting namespace already exists :: caused by :: \
                        Collection d.system.buckets.s already exists.";
        assert_eq!(error(f.store.collection_or_create(&namespace).map(drop)), conflict);
        assert_eq!(error(f.store.refuse_beside_buckets(&namespace)), conflict);
        let renamed = f.store.rename_collection(&c, &namespace, Rename::default(), &|| Ok(()));
        assert_eq!(error(renamed), conflict);
        f.reopen();
    }
    f.store.drop_collection(&namespace).unwrap().unwrap();
    assert_eq!(names(&f), ["d.c"]);
    create(&f, &buckets, "{timeseries: {timeField: 't', metaField: 'm'}}").unwrap();
    // The other half is added by the same options only.
    assert!(error(create(&f, &namespace, "{timeseries: {timeField: 'u'}}")).starts_with("48"));
    assert_eq!(names(&f), ["d.c", "d.system.buckets.s"]);
    create(&f, &namespace, "{timeseries: {timeField: 't', metaField: 'm'}}").unwrap();
    let found = f.store.buckets_of(&namespace).unwrap();
    let indexes: Vec<_> = found.indexes.iter().map(|index| index.name().to_owned()).collect();
    assert_eq!(indexes, ["_id_", "m_1_t_1"]);
}

#[test]
fn a_view_on_foreign_buckets_is_no_time_series() {
    let (f, namespace, _) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't'}}").unwrap();
    let other = Namespace::parse("d.v").unwrap();
    create(&f, &other, "{viewOn: 'system.buckets.s', pipeline: []}").unwrap();
    assert!(f.store.buckets_of(&other).is_none());
    assert!(f.store.buckets_of(&Namespace::parse("d.c").unwrap()).is_none());
    assert!(Catalog::buckets_of(&f.store.catalog(), &namespace).is_some());
}

#[test]
fn buckets_become_longer_by_coll_mod() {
    let (mut f, namespace, buckets) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't'}}").unwrap();
    let change = |f: &Fixture, to: &str| {
        let to = parse(to);
        f.store.coll_mod(&buckets, CollMod { timeseries: Some(to.as_doc()), ..CollMod::default() })
    };
    change(&f, "{granularity: 'minutes'}").unwrap();
    assert!(error(change(&f, "{granularity: 'seconds'}")).starts_with("72"));
    let later = CollMod { expire_after_seconds: Some(Value::Int32(5)), ..CollMod::default() };
    f.store.coll_mod(&buckets, later).unwrap();
    f.reopen();
    let found = f.store.buckets_of(&namespace).unwrap();
    let series = found.options.timeseries.clone().unwrap();
    assert_eq!((series.span, series.rounding), (86_400, 3600));
    assert_eq!(found.options.expire_after_seconds, Some(5));
    let pipeline = f.store.collection(&namespace).unwrap().options.doc.get("pipeline").to_string();
    assert!(pipeline.contains("bucketMaxSpanSeconds: 86400"), "{pipeline}");
    // It still is the collection that its first options create.
    create(
        &f,
        &namespace,
        "{timeseries: {timeField: 't', granularity: 'minutes'}, expireAfterSeconds: 5}",
    )
    .unwrap();
    let plain = f.namespace.clone();
    let wrong = CollMod { timeseries: Some(Doc::EMPTY), ..CollMod::default() };
    assert!(error(f.store.coll_mod(&plain, wrong)).starts_with("72"));
}

#[test]
fn only_valid_buckets_are_stored() {
    let (f, namespace, _) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't'}}").unwrap();
    let buckets = f.store.buckets_of(&namespace).unwrap();
    let insert = |doc: &str| {
        let doc = parse(doc);
        f.store.write(WriteOptions::default(), &mut |txn| txn.insert(&buckets, doc.as_doc()))
    };
    let date = r#"{"$date": "2020-01-01T00:00:00Z"}"#;
    let bucket = |control: &str| format!("{{control: {control}, data: {{}}}}");
    insert(&bucket(&format!("{{version: 2, min: {{t: {date}}}, max: {{t: {date}}}, count: 1}}")))
        .unwrap();
    for wrong in [
        "{}".to_owned(),
        bucket("{}"),
        bucket(&format!("{{version: 'x', min: {{t: {date}}}, max: {{t: {date}}}}}")),
        bucket(&format!("{{version: 2, min: {{t: 1}}, max: {{t: {date}}}}}")),
        bucket(&format!("{{version: 2, min: {{t: {date}}}, max: {{t: {date}}}, x: 1}}")),
    ] {
        assert!(error(insert(&wrong)).starts_with("121"), "{wrong}");
    }
}

#[test]
fn buckets_expire_with_their_last_measurement() {
    let (f, namespace, _) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't'}, expireAfterSeconds: 100}").unwrap();
    let buckets = f.store.buckets_of(&namespace).unwrap();
    let now = 1_700_000_000_i64;
    let insert = |begin: i64, last: i64, n: u8| {
        let mut id = [n; 12];
        id[..4].copy_from_slice(&(begin as u32).to_be_bytes());
        let (begin, last) = (Value::DateTime(begin * 1000), Value::DateTime(last * 1000));
        let bucket = doc! {
            "_id": (Value::ObjectId(&id)),
            "control": { "version": 2, "min": { "t": begin }, "max": { "t": last }, "count": 1 },
            "data": {},
        };
        f.store
            .write(WriteOptions::default(), &mut |txn| txn.insert(&buckets, bucket.as_doc()))
            .unwrap();
    };
    insert(now - 1000, now - 101, 1);
    insert(now - 1000, now - 99, 2);
    insert(-5000, -4000, 3);
    // Its id begins with a time of long ago, because the seconds have more than 32 bits.
    let later = (1 << 32) + 1000;
    insert(later, later, 4);
    // More than one batch that stays.
    for n in 0..200 {
        insert(now - 500, now, n);
    }
    for n in 0..200 {
        insert(now - 400, now - 300, n);
    }
    assert_eq!(f.store.expire(now * 1000, &|| Ok(())).unwrap(), 202);
    assert_eq!(f.store.expire(now * 1000, &|| Ok(())).unwrap(), 0);
    assert_eq!(buckets.count(), 202);
    assert_eq!(f.store.expire((now + 101) * 1000, &|| Ok(())).unwrap(), 201);
}

#[test]
fn buckets_of_some_metadata_expire_by_an_index() {
    let (f, namespace, name) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't', metaField: 'm'}}").unwrap();
    let spec = parse(
        "{key: {'control.max.t': -1, 'control.min.t': -1}, name: 'x', expireAfterSeconds: 100,
          partialFilterExpression: {meta: 1},
          originalSpec: {key: {t: -1}, partialFilterExpression: {m: 1}}}",
    );
    f.store.create_indexes(&name, &[spec.as_doc()], BuildOptions::default()).unwrap();
    let buckets = f.store.buckets_of(&namespace).unwrap();
    let now = 1_700_000_000_i64;
    let mut n = 0;
    let mut insert = |meta: i32, begin: i64, last: i64| {
        n += 1;
        let mut id = [n; 12];
        id[..4].copy_from_slice(&(begin as u32).to_be_bytes());
        let (begin, last) = (Value::DateTime(begin * 1000), Value::DateTime(last * 1000));
        let bucket = doc! {
            "_id": (Value::ObjectId(&id)),
            "control": { "version": 2, "min": { "t": begin }, "max": { "t": last }, "count": 1 },
            "meta": meta,
            "data": {},
        };
        f.store
            .write(WriteOptions::default(), &mut |txn| txn.insert(&buckets, bucket.as_doc()))
            .unwrap();
    };
    // More than one transaction deletes, with one key.
    (0..150).for_each(|_| insert(1, now - 200, now - 100));
    insert(1, now - 200, now - 99);
    insert(1, -500, -400);
    insert(2, now - 200, now - 150);
    assert_eq!(f.store.expire(now * 1000, &|| Ok(())).unwrap(), 151);
    assert_eq!(f.store.expire(now * 1000, &|| Ok(())).unwrap(), 0);
    assert_eq!(buckets.count(), 2);
    let elsewhere = f.store.create_indexes(&f.namespace, &[spec.as_doc()], BuildOptions::default());
    assert!(error(elsewhere).starts_with("197"), "only indexes on buckets have it");
}

#[test]
fn what_is_known_of_buckets_is_stored() {
    let (mut f, namespace, _) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't'}}").unwrap();
    let facts = |f: &Fixture| {
        let facts = f.store.buckets_of(&namespace).unwrap().bucket_facts();
        (facts.id_range(None, Some(7)), facts.id_range(Some(7), None), facts.are_uniform())
    };
    let (from, to) = (Some((7, u32::MAX)), Some((0, 7)));
    let insert = |f: &Fixture, seconds: i64, high: Value<'_>, keep: bool| {
        let buckets = f.store.buckets_of(&namespace).unwrap();
        let mut id = [1; 12];
        id[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
        let time = Value::DateTime(seconds * 1000);
        let bucket = doc! {
            "_id": (Value::ObjectId(&id)),
            "control": {
                "version": 2, "min": { "t": time, "a": 1 }, "max": { "t": time, "a": high }, "count": 1
            },
            "data": {},
        };
        f.store.write(WriteOptions::default(), &mut |txn| {
            txn.insert(&buckets, bucket.as_doc())?;
            if keep { Ok(()) } else { nagi_error::bail!(nagi_error::Code::BAD_VALUE, "undone") }
        })
    };
    insert(&f, 1_700_000_000, Value::Int32(5), true).unwrap();
    f.reopen();
    assert_eq!(facts(&f), (to, from, true));
    assert!(insert(&f, -5, Value::Int32(5), false).is_err());
    assert_eq!(facts(&f), (None, from, true), "a write that is undone costs only this");
    f.reopen();
    // Of several nodes, each has to know it before the write.
    let undone = if crate::support::is_shared() { None } else { to };
    assert_eq!(facts(&f), (undone, from, true));
    assert!(insert(&f, -5, Value::Int32(5), false).is_err());
    insert(&f, -5, Value::Int32(5), true).unwrap();
    f.reopen();
    assert_eq!(facts(&f), (None, from, true));
    insert(&f, 1_700_000_001, Value::String("x"), true).unwrap();
    insert(&f, 1 << 32, Value::Int32(5), true).unwrap();
    for _ in 0..2 {
        assert_eq!(facts(&f), (None, None, false));
        f.reopen();
    }
    // Of another collection of the name, everything is known again.
    f.store.drop_collection(&namespace).unwrap().unwrap();
    create(&f, &namespace, "{timeseries: {timeField: 't'}}").unwrap();
    assert_eq!(facts(&f), (to, from, true));
}

#[test]
fn neither_half_is_renamed() {
    let (f, namespace, _) = series();
    create(&f, &namespace, "{timeseries: {timeField: 't'}}").unwrap();
    let to = Namespace::parse("d.other").unwrap();
    assert!(
        error(f.store.rename_collection(&namespace, &to, Rename::default(), &|| Ok(())))
            .starts_with("166")
    );
    let c = Namespace::parse("d.c").unwrap();
    let over = Rename { drop_target: true, ..Rename::default() };
    assert!(error(f.store.rename_collection(&c, &namespace, over, &|| Ok(()))).starts_with("48"));
}
