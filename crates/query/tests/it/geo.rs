//! Geometry by index, compared with geometry by collection scan: the same set, and the correct order.

use nagi_bson::Doc;
use nagi_lang::geo::{self, GeoNear};
use nagi_query::{Env, FindRequest, Hint, find};

use crate::any_plan::Random;
use crate::fixture::{Fixture, NOW_MS, doc, drain};

impl Random {
    /// A coordinate; many are equal, or on lines and boundaries.
    fn at(&mut self, reach: i32) -> f64 {
        let whole = self.below(2 * reach as usize + 1) as i32 - reach;
        match self.below(4) {
            0 => f64::from(whole),
            1 => f64::from(whole / 10 * 10),
            _ => (f64::from(whole) + self.below(1000) as f64 / 1000.0).min(f64::from(reach)),
        }
    }

    fn pair(&mut self, wide: bool) -> String {
        let (lng, lat) = if wide { (180, 90) } else { (12, 9) };
        format!("[{}, {}]", self.at(lng), self.at(lat))
    }

    fn geometry(&mut self, wide: bool) -> String {
        match self.below(8) {
            0 => self.pair(wide),
            1 => format!("{{x: {}, y: {}}}", self.at(12), self.at(9)),
            2 | 3 => format!("{{type: 'Point', coordinates: {}}}", self.pair(wide)),
            4 => format!(
                "{{type: 'LineString', coordinates: [{}, {}, {}]}}",
                self.pair(wide),
                self.pair(false),
                self.pair(false)
            ),
            5 => format!(
                "{{type: 'MultiPoint', coordinates: [{}, {}]}}",
                self.pair(wide),
                self.pair(wide)
            ),
            _ => self.polygon(),
        }
    }

    fn polygon(&mut self) -> String {
        let (x, y) = (self.at(150), self.at(70));
        let (w, h) = (self.below(24) as f64 + 0.5, self.below(15) as f64 + 0.5);
        let hole = match self.below(3) {
            0 => format!(
                ", [[{}, {}], [{}, {}], [{}, {}], [{0}, {1}]]",
                x + w / 4.0,
                y + h / 3.0,
                x + w / 2.0,
                y + h / 3.0,
                x + w / 3.0,
                y + h / 2.0
            ),
            _ => String::new(),
        };
        format!(
            "{{type: 'Polygon', coordinates: [[[{x}, {y}], [{}, {y}], [{}, {}], [{x}, {}], [{x}, {y}]]{hole}]}}",
            x + w,
            x + w,
            y + h,
            y + h
        )
    }

    fn condition(&mut self, plane: bool) -> String {
        let radius = self.below(400) as f64 / 100.0;
        match self.below(if plane { 4 } else { 7 }) {
            0 => format!("{{$geoWithin: {{$box: [{}, {}]}}}}", self.pair(true), self.pair(false)),
            1 => format!("{{$geoWithin: {{$center: [{}, {}]}}}}", self.pair(false), radius * 5.0),
            2 => format!("{{$geoWithin: {{$centerSphere: [{}, {}]}}}}", self.pair(true), radius),
            3 => format!(
                "{{$geoWithin: {{$polygon: [{}, {}, {}]}}}}",
                self.pair(false),
                self.pair(true),
                self.pair(false)
            ),
            4 => format!("{{$geoWithin: {{$geometry: {}}}}}", self.polygon()),
            _ => format!("{{$geoIntersects: {{$geometry: {}}}}}", self.geo_json()),
        }
    }

    fn geo_json(&mut self) -> String {
        loop {
            let text = self.geometry(true);
            if text.contains("type") {
                return text;
            }
        }
    }
}

fn run(
    fixture: &Fixture,
    filter: Doc<'_>,
    hint: Option<Hint<'_>>,
    batch: usize,
) -> Option<Vec<nagi_bson::DocBuf>> {
    let request = FindRequest { filter, hint, ..FindRequest::new(&fixture.ns) };
    let execution = find(&fixture.store, &request, &Env::new(&(), NOW_MS)).ok()?;
    drain(execution, batch).ok()
}

fn ids(docs: &[nagi_bson::DocBuf]) -> Vec<String> {
    let mut ids: Vec<String> = docs.iter().map(|d| d.get("_id").to_string()).collect();
    ids.sort();
    ids
}

fn compare(random: &mut Random, fixture: &Fixture, name: &str, plane: bool) {
    for _ in 0..20 {
        let filter = match random.below(3) {
            0 => format!("{{p: {}, n: {{$gte: {}}}}}", random.condition(plane), random.below(4)),
            1 => format!(
                "{{$or: [{{p: {}}}, {{p: {}}}]}}",
                random.condition(plane),
                random.condition(plane)
            ),
            _ => format!("{{p: {}}}", random.condition(plane)),
        };
        let Ok(filter) = nagi_bson::json::parse(&filter) else { panic!("{filter}") };
        let natural = doc("{$natural: 1}");
        let scanned = run(fixture, filter.as_doc(), Some(Hint::Key(natural.as_doc())), 1000);
        let Some(scanned) = scanned else { continue };
        for hint in [None, Some(Hint::Name(name))] {
            let found = run(fixture, filter.as_doc(), hint, 1 + random.below(7)).unwrap();
            assert_eq!(ids(&found), ids(&scanned), "{name}: {:?}", filter.as_doc());
        }
    }
}

fn nearest(random: &mut Random, fixture: &Fixture, plane: bool) {
    for _ in 0..5 {
        let text = match (plane, random.below(2)) {
            (true, 0) => {
                format!("{{$near: {}, $maxDistance: {}}}", random.pair(false), random.below(99))
            }
            (false, 0) => format!(
                "{{$near: {{$geometry: {{type: 'Point', coordinates: {}}}, $minDistance: {}}}}}",
                random.pair(true),
                random.below(9_000_000)
            ),
            _ => {
                format!("{{$nearSphere: {}, $maxDistance: {}}}", random.pair(true), random.below(4))
            }
        };
        let near = GeoNear::parse(doc(&text).as_doc()).unwrap();
        let distance = |d: Doc<'_>| {
            let mut least = f64::INFINITY;
            nagi_lang::path::for_each_value(d, &"p".into(), &mut |v| {
                least = near.distance(v).map_or(least, |found| least.min(found));
            });
            least
        };
        let all = run(fixture, Doc::EMPTY, None, 1000).unwrap();
        let mut expected: Vec<f64> =
            all.iter().map(|d| distance(d.as_doc())).filter(|d| near.accepts(*d)).collect();
        expected.sort_by(f64::total_cmp);
        let filter = doc(&format!("{{p: {text}}}"));
        let found = run(fixture, filter.as_doc(), None, 1 + random.below(9)).unwrap();
        let found: Vec<f64> = found.iter().map(|d| distance(d.as_doc())).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn an_index_finds_what_a_scan_finds() {
    for seed in 1..=6u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let plane = seed % 3 == 0;
        let fixture = Fixture::of_kind(seed);
        let (spec, name) = match seed % 6 {
            0 => ("{key: {p: '2d'}, name: 'x', bits: 12}", "x"),
            3 => ("{key: {p: '2d', n: 1}, name: 'x'}", "x"),
            1 => ("{key: {p: '2dsphere'}, name: 'x'}", "x"),
            2 => ("{key: {n: 1, p: '2dsphere'}, name: 'x', finestIndexedLevel: 9}", "x"),
            4 => ("{key: {p: '2dsphere', n: -1}, name: 'x', coarsestIndexedLevel: 3}", "x"),
            _ => {
                ("{key: {p: '2dsphere'}, name: 'x', partialFilterExpression: {n: {$gte: 0}}}", "x")
            }
        };
        fixture.index(spec);
        for id in 0..60 {
            let wide = random.below(2) == 0;
            let place = match (plane, random.below(12)) {
                (_, 0) => "null".to_owned(),
                (true, 1 | 2) => format!("[{}, {}]", random.pair(wide), random.pair(false)),
                (true, _) => random.pair(wide),
                (false, _) => random.geometry(wide),
            };
            let n = match random.below(6) {
                0 => "[1, 3]".to_owned(),
                1 => "null".to_owned(),
                n => n.to_string(),
            };
            // A partial index that does not serve a query cannot be hinted.
            let n = if seed % 6 == 5 { "5".to_owned() } else { n };
            // Some geometries are invalid and are refused.
            let _ = fixture.insert(&format!("{{_id: {id}, p: {place}, n: {n}}}"));
        }
        if seed % 6 != 5 {
            compare(&mut random, &fixture, name, plane);
            nearest(&mut random, &fixture, plane);
        }
    }
}

#[test]
fn one_degree_is_what_it_is() {
    let (a, b) = (geo::point_at(0.0, 0.0), geo::point_at(0.0, 1.0));
    assert_eq!(geo::angle(&a, &b) * geo::EARTH_RADIUS_M, 111_318.845_021_450_34);
}
