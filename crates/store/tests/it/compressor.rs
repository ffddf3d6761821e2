//! Collections with a compressor of their own: where their records lie, whatever is done to them.

use nagi_kv::{Compressor, Space};
use nagi_store::{BuildOptions, Namespace, WriteOptions};

use crate::support::{Fixture, error, parse};

fn create(f: &Fixture, name: &str, config: &str) -> String {
    let text = format!("{{storageEngine: {{wiredTiger: {{configString: '{config}'}}}}}}");
    error(f.store.create_collection(&Namespace::parse(name).unwrap(), parse(&text).as_doc()))
}

fn keys(f: &Fixture, space: Space) -> usize {
    let mut cursor = f.engine.latest().cursor(space, &[], &[0xF0]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[]).unwrap());
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

#[test]
fn records_lie_in_the_space_of_their_compressor_and_stay_there() {
    let mut f = Fixture::new();
    for compressor in Compressor::ALL {
        let name = compressor.name();
        f.namespace = Namespace::parse(&format!("d.{name}")).unwrap();
        assert_eq!(create(&f, &format!("d.{name}"), &format!("block_compressor={name}")), "ok");
        for id in 0..5 {
            f.insert(&format!("{{_id: {id}, a: 'x'}}")).unwrap();
        }
        f.index("{key: {a: 1}, name: 'a'}").unwrap();
        assert_eq!(keys(&f, compressor.space()), 5);
        f.reopen();
        f.insert("{_id: 9}").unwrap();
        f.store.validate(&f.collection()).unwrap();
        assert_eq!((keys(&f, compressor.space()), f.collection().count()), (6, 6));
        // Within the database, then to another one, which copies.
        for to in ["d.x", "e.y"] {
            let to = Namespace::parse(to).unwrap();
            f.store.rename_collection(&f.namespace, &to, false, false).unwrap();
            f.namespace = to;
            f.check_valid();
        }
        f.store
            .convert_to_capped(
                &f.namespace,
                parse("{capped: true, size: 100000}").as_doc(),
                &|| Ok(()),
            )
            .unwrap();
        f.insert("{_id: 10}").unwrap();
        f.check_valid();
        let listed = f.collection().options.doc.as_doc().to_string();
        assert!(listed.contains(&format!("block_compressor={name}")), "{listed}");
        f.store.drop_collection(&f.namespace).unwrap();
        f.reopen();
        assert_eq!(keys(&f, compressor.space()), 0, "{name}");
    }
    assert_eq!(keys(&f, Space::Records), 0);
}

#[test]
fn deletes_updates_and_builds_find_them() {
    let f = Fixture { namespace: Namespace::parse("d.z").unwrap(), ..Fixture::new() };
    assert_eq!(create(&f, "d.z", "block_compressor=zstd"), "ok");
    let ids: Vec<_> = (0..3).map(|id| f.insert(&format!("{{_id: {id}}}")).unwrap()).collect();
    let collection = f.collection();
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            txn.lock(&collection, ids[0])?;
            txn.update(
                &collection,
                ids[0],
                parse("{_id: 0}").as_doc(),
                parse("{_id: 0, a: 7}").as_doc(),
            )?;
            txn.delete(&collection, ids[1], parse("{_id: 1}").as_doc())
        })
        .unwrap();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    f.check_valid();
    assert_eq!(f.docs(), "{ _id: 0, a: 7 } { _id: 2 }");
    f.store.compact(&f.collection(), &mut |_, _| Ok(())).unwrap();
}

#[test]
fn strings_are_checked_when_a_collection_is_made() {
    let f = Fixture::new();
    assert_eq!(
        create(&f, "d.n", "block_compressor=lzo"),
        "2: 22: Invalid argument. unknown compressor 'lzo'."
    );
    assert!(create(&f, "d.n", "leaf_page_max=4KB").starts_with("115: "));
    // What exists is said first.
    assert!(create(&f, "d.c", "foo=bar").starts_with("48: "));
    // An engine that does not compress keeps what an index asks for, if it makes sense.
    let spec = |config: &str| {
        parse(&format!(
            "{{key: {{a: 1}}, name: 'a', storageEngine: {{wiredTiger: {{configString: '{config}'}}}}}}"
        ))
    };
    let build = |config: &str| {
        let spec = spec(config);
        error(f.store.create_indexes(&f.namespace, &[spec.as_doc()], BuildOptions::default()))
    };
    assert!(build("nonsense=1").starts_with("2: "));
    assert_eq!(build("block_compressor=zlib"), "ok");
}
