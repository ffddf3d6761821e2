//! Geometries in measurements and metadata are found as in an ordinary collection, with and without indexes.

use super::*;

/// A geometry, or null.
fn place(random: &mut Random) -> String {
    let at =
        |reach: usize, random: &mut Random| random.below(20 * reach) as f64 / 10.0 - reach as f64;
    let (lng, lat) = (at(180, random), at(90, random));
    match random.below(6) {
        0 => format!("[{lng}, {lat}]"),
        1 => "null".to_owned(),
        2 => format!(
            "{{type: 'LineString', coordinates: [[{lng}, {lat}], [{}, {}]]}}",
            lng / 2.0,
            lat / 2.0 + 1.0
        ),
        _ => format!("{{type: 'Point', coordinates: [{lng}, {lat}]}}"),
    }
}

/// The results of a pipeline, in their order.
fn distances(store: &Arc<Store>, of: &Namespace, stage: &str) -> Vec<String> {
    let pipeline = doc(&format!("{{p: [{stage}, {{$project: {{_id: 0, d: 1}}}}]}}"));
    let request = AggregateRequest::new(of, pipeline.get("p").as_array().unwrap());
    let found = aggregate(store, &request, &Env::new(&(), NOW_MS)).unwrap();
    drain(found, 100).unwrap().iter().map(|doc| doc.as_doc().to_string()).collect()
}

#[test]
fn geometries_are_found_with_and_without_indexes() {
    for seed in 1..=cases().div_ceil(400) {
        let mut random = Random(seed * 0x3C6E_F35F);
        let fixture = Fixture::new();
        create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
        let (series, plain) = (name(SERIES), name("plain"));
        let buckets = fixture.store.buckets_of(&series).unwrap();
        let keys = ["{loc: '2dsphere'}", "{'o.loc': '2dsphere', t: 1}", "{'m.loc': '2dsphere'}"];
        for (n, key) in keys.iter().enumerate() {
            let spec = doc(&format!("{{key: {key}, name: 'n{n}'}}"));
            if random.chance(60) {
                let options = buckets.options.timeseries.as_ref().unwrap();
                let of_buckets = series_index(options, None, spec.as_doc()).unwrap();
                let (of, options) = (&buckets.namespace, BuildOptions::default());
                fixture.store.create_indexes(of, &[of_buckets.as_doc()], options).unwrap();
            }
            // The stage needs it there.
            let options = BuildOptions::default();
            fixture.store.create_indexes(&plain, &[spec.as_doc()], options).unwrap();
        }
        let metas: Vec<String> = (0..6).map(|_| place(&mut random)).collect();
        let docs: Vec<DocBuf> = (0..150)
            .map(|id| {
                let (time, loc, inner) =
                    (date(&mut random), place(&mut random), place(&mut random));
                let meta = &metas[random.below(6)];
                doc(&format!(
                    "{{_id: {id}, t: {time}, m: {{loc: {meta}}}, loc: {loc}, o: {{loc: {inner}}}}}"
                ))
            })
            .collect();
        for chunk in docs.chunks(random.below(60) + 1) {
            assert!(insert_into(&fixture.store, &series, chunk, true).errors.is_empty());
            insert_into(&fixture.store, &plain, chunk, true);
        }
        for _ in 0..20 {
            let field = random.one(&["loc", "o.loc", "m.loc"]);
            let center =
                format!("[{}, {}]", random.below(360) as i32 - 180, random.below(180) as i32 - 90);
            let radius = random.below(100) as f64 / 60.0;
            let filter =
                format!("{{'{field}': {{$geoWithin: {{$centerSphere: [{center}, {radius}]}}}}}}");
            let expected = found(&fixture.store, &plain, &filter);
            assert_eq!(found(&fixture.store, &series, &filter), expected, "seed {seed}: {filter}");
            let limit = match random.chance(50) {
                true => format!("maxDistance: {}, minDistance: 1000,", radius * 6_000_000.0),
                false => String::new(),
            };
            let stage = format!(
                "{{$geoNear: {{near: {{type: 'Point', coordinates: {center}}}, key: '{field}', {limit}
                   query: {{_id: {{$lt: 120}}}}, distanceField: 'd'}}}}"
            );
            let expected = distances(&fixture.store, &plain, &stage);
            assert_eq!(
                distances(&fixture.store, &series, &stage),
                expected,
                "seed {seed}: {stage}"
            );
        }
    }
}

#[test]
fn pipelines_inside_of_stages_find_what_is_near() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let (series, outer) = (name(SERIES), name("outer"));
    let docs: Vec<DocBuf> = (0..9)
        .map(|id| doc(&format!("{{_id: {id}, t: {{$date: {id}}}, m: {}, loc: [{id}, 0]}}", id % 2)))
        .collect();
    assert!(insert_into(&fixture.store, &series, &docs, true).errors.is_empty());
    insert_into(&fixture.store, &outer, &[doc("{_id: 1}")], true);
    let near =
        "{$geoNear: {near: {type: 'Point', coordinates: [0, 0]}, key: 'loc', maxDistance: 350000,
        distanceField: 'd'}}";
    let run = |of: &Namespace, stages: &str| {
        let stages = doc(&format!("{{p: [{stages}]}}"));
        let request = AggregateRequest::new(of, stages.get("p").as_array().unwrap());
        let found = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS))?;
        Ok::<Vec<String>, nagi_error::Error>(
            drain(found, 100)?.iter().map(|doc| doc.as_doc().to_string()).collect(),
        )
    };
    let ids = "{$project: {_id: 1}}";
    let union =
        format!("{{$unionWith: {{coll: '{SERIES}', pipeline: [{near}, {ids}]}}}}, {{$skip: 1}}");
    let expected = ["{ _id: 0 }", "{ _id: 1 }", "{ _id: 2 }", "{ _id: 3 }"];
    assert_eq!(run(&outer, &union).unwrap(), expected);
    let lookup = |fields: &str| {
        format!(
            "{{$lookup: {{from: '{SERIES}', {fields} pipeline: [{near}, {ids}], as: 'a'}}}},
             {{$project: {{_id: 0, a: '$a._id'}}}}"
        )
    };
    assert_eq!(run(&outer, &lookup("")).unwrap(), ["{ a: [ 0, 1, 2, 3 ] }"]);
    let equal = lookup("localField: '_id', foreignField: 'm',");
    assert_eq!(run(&outer, &equal).unwrap(), ["{ a: [ 1, 3 ] }"]);
    // A view that changes what it reads has no order by distance.
    let view = doc(&format!("{{viewOn: '{SERIES}', pipeline: [{{$match: {{m: 1}}}}]}}"));
    fixture.store.create_collection(&name("view"), view.as_doc()).unwrap();
    let refused = run(&outer, &union.replace(SERIES, "view")).unwrap_err();
    assert_eq!(refused.code().0, 40602);
}
