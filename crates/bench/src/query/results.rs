//! The times of the queries: a table for people, a page, JSON for programs.
use super::data;
use super::{Answered, Side, Taken};
use crate::html::Page;
use crate::report::plain_name;
use nagi_bson::json::JsonWriter;
use std::fmt::Write as _;

const HEAD: [&str; 10] = [
    "question",
    "server",
    "median s",
    "best s",
    "p90 s",
    "cpu s",
    "ns/doc",
    "speed of bare",
    "times nagi",
    "resident MiB",
];

/// The value below which `share` of all values lies.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(at).copied()
}

fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The median of the ratio between the bare engine's time and this side's time, both of the same round.
fn share_of_bare(bare: Option<&Taken>, taken: &Taken) -> Option<f64> {
    let pairs = bare?.seconds.iter().zip(&taken.seconds);
    median(&pairs.map(|(bare, own)| bare / own.max(1e-9)).collect::<Vec<_>>())
}

fn ns_a_document(side: &Side, answered: &Answered, taken: &Taken) -> Option<f64> {
    let documents = data::count(answered.question.over, side.scale);
    Some(median(&taken.seconds)? * 1e9 / documents as f64)
}

/// The sides that took part in a query.
fn parts<'a>(
    sides: &'a [Side],
    answered: &'a Answered,
) -> impl Iterator<Item = (&'a Side, &'a Taken)> {
    sides.iter().zip(&answered.taken).filter_map(|(side, taken)| Some((side, taken.as_ref()?)))
}

/// The first side is the bare engine.
fn bare(answered: &Answered) -> Option<&Taken> {
    answered.taken.first().and_then(Option::as_ref)
}

/// The second side is Nagi.
fn of_nagi(sides: &[Side], answered: &Answered) -> Option<f64> {
    ns_a_document(sides.get(1)?, answered, answered.taken.get(1)?.as_ref()?)
}

pub(super) fn table(sides: &[Side], answered: &[Answered]) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for one in answered {
        for (side, taken) in parts(sides, one) {
            rows.push(row(sides, one, side, taken));
        }
    }
    rows
}

fn row(sides: &[Side], one: &Answered, side: &Side, taken: &Taken) -> Vec<String> {
    let cell = |value: Option<f64>, decimals: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
    };
    let own = ns_a_document(side, one, taken);
    let same_scale = sides.first().is_some_and(|bare| bare.scale == side.scale);
    let share = share_of_bare(bare(one), taken).filter(|_| same_scale && !side.is_raw);
    let times = own.zip(of_nagi(sides, one)).map(|(own, nagi)| own / nagi.max(1e-9));
    let is_peer = !side.is_raw && side.name != "nagi";
    let (before, most) = taken.resident;
    let mut cells = vec![one.question.name.to_owned(), side.name.clone()];
    if taken.refused.is_some() {
        cells.push("refused".to_owned());
        return cells;
    }
    cells.extend([
        cell(median(&taken.seconds), 4),
        cell(quantile(&taken.seconds, 0.0), 4),
        cell(quantile(&taken.seconds, 0.9), 4),
        cell(median(&taken.cpu_s), 2),
        cell(own, 0),
        share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        cell(times.filter(|_| is_peer), 1),
        match one.question.builds {
            true => format!("{} to {}", before >> 20, most >> 20),
            false => (most >> 20).to_string(),
        },
    ]);
    cells
}

/// The servers that refused a query, with the reason.
pub(super) fn refusals(sides: &[Side], answered: &[Answered]) -> String {
    let mut out = String::new();
    for one in answered {
        for (side, taken) in parts(sides, one) {
            if let Some(why) = &taken.refused {
                let _ = writeln!(out, "{}, {}: {why:.160}", one.question.name, side.name);
            }
        }
    }
    out
}

pub(super) fn page(sides: &[Side], answered: &[Answered]) -> Page {
    let mut page = Page::new("nagi-bench query");
    sides.iter().for_each(|side| page.paragraph(&side.line()));
    page.paragraph(
        "The bare engine does what no query could do without: each record in its hands once, the \
         index keys sorted and loaded. All sides in turns; \"speed of bare\" is the median of \
         neighbouring turns. A peer has fewer documents: \"times nagi\" is by the document. \
         CPU seconds are the server's; resident memory is the most of its process, for index \
         builds also that before.",
    );
    page.table(&table(sides, answered));
    let refusals = refusals(sides, answered);
    if !refusals.is_empty() {
        page.heading("Not answered");
        refusals.lines().for_each(|line| page.paragraph(line));
    }
    page
}

pub(super) fn json(sides: &[Side], answered: &[Answered]) -> String {
    let rows = answered
        .iter()
        .flat_map(|one| parts(sides, one).map(move |(side, taken)| (one, side, taken)));
    JsonWriter::file(|w| {
        w.rows(0, rows, |w, (one, side, taken)| w.object(|w| put_row(w, one, side, taken)));
    })
}

fn put_row(w: &mut JsonWriter<'_>, one: &Answered, side: &Side, taken: &Taken) {
    let share = share_of_bare(bare(one), taken).filter(|_| !side.is_raw);
    w.key("question").string(&plain_name(one.question.name));
    w.key("server").string(&plain_name(&side.name));
    w.key("documents").literal(data::count(one.question.over, side.scale));
    w.key("median_s").fixed_or_null(median(&taken.seconds), 5);
    w.key("p90_s").fixed_or_null(quantile(&taken.seconds, 0.9), 5);
    w.key("seconds").array(|w| taken.seconds.iter().for_each(|s| w.fixed(*s, 5)));
    w.key("cpu_s").array(|w| taken.cpu_s.iter().for_each(|s| w.fixed(*s, 5)));
    w.key("share_of_bare").fixed_or_null(share, 5);
    w.key("resident_before").literal(taken.resident.0);
    w.key("resident_max").literal(taken.resident.1);
    w.key("refused").literal(taken.refused.is_some());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few() {
        let values = [3.0, 1.0, 2.0, 10.0, 4.0];
        assert_eq!((median(&values), quantile(&values, 0.9)), (Some(3.0), Some(10.0)));
        assert_eq!((quantile(&values, 0.0), median(&[])), (Some(1.0), None));
    }

    #[test]
    fn shares_are_of_the_same_round() {
        let taken = |seconds: &[f64]| Taken { seconds: seconds.to_vec(), ..Taken::default() };
        let (bare, own) = (taken(&[1.0, 10.0, 1.0]), taken(&[2.0, 20.0, 4.0]));
        assert_eq!(share_of_bare(Some(&bare), &own), Some(0.5));
        assert_eq!(share_of_bare(None, &own), None);
    }
}
