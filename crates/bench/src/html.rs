//! Builds a report as one self-contained HTML file: tables, and plots as inline SVG.
use crate::args::{Outcome, failed};
use std::fmt::Write as _;
use std::fs;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 24.0;
/// Maximum number of points of a plot. More points than pixels are useless: neighbours are merged, and the
/// greatest represents them.
const POINTS_MAX: usize = 960;

const HEAD: &str = "<!doctype html><meta charset=\"utf-8\"><style>\
    body{font:14px system-ui,sans-serif;margin:2em auto;max-width:1000px;color:#222}\
    table{border-collapse:collapse;margin:1em 0}td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right}\
    td:first-child,th:first-child{text-align:left}svg{display:block;margin:.5em 0 1.5em}\
    text{font:11px system-ui,sans-serif;fill:#555}</style>\n";

pub(crate) struct Page {
    out: String,
}

/// A plot of one series over time in seconds.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
    /// Points above it are marked red.
    pub(crate) limit: Option<f64>,
}

impl Page {
    pub(crate) fn new(title: &str) -> Page {
        let title = escaped(title);
        Page { out: format!("{HEAD}<title>{title}</title><h1>{title}</h1>\n") }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "<h2>{}</h2>", escaped(text));
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.out, "<p>{}</p>", escaped(text));
    }

    /// Appends a table. The first row is the head.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) {
        self.out.push_str("<table>");
        for (index, row) in rows.iter().enumerate() {
            let tag = if index == 0 { "th" } else { "td" };
            self.out.push_str("<tr>");
            for cell in row {
                let _ = write!(self.out, "<{tag}>{}</{tag}>", escaped(cell));
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</table>\n");
    }

    pub(crate) fn plot(&mut self, plot: &Plot<'_>) {
        let x_max = plot.points.iter().map(|p| p.0).fold(1e-9, f64::max);
        let top = plot.limit.unwrap_or(0.0);
        let y_max = round_up(plot.points.iter().map(|p| p.1).fold(top.max(1e-9), f64::max));
        let x = |v: f64| LEFT + v / x_max * (WIDTH - LEFT - 10.0);
        let y = |v: f64| (HEIGHT - BOTTOM) * (1.0 - v / y_max) + 4.0;
        let _ = write!(
            self.out,
            "<h3>{}</h3><svg width=\"{WIDTH}\" height=\"{HEIGHT}\">",
            escaped(plot.title)
        );
        for part in 0..=4 {
            let value = y_max * f64::from(part) / 4.0;
            let at = y(value);
            let _ = write!(
                self.out,
                "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#eee\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{} {}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(value),
                escaped(plot.unit)
            );
        }
        self.out.push_str("<polyline fill=\"none\" stroke=\"#2a6fb0\" points=\"");
        for (at, value) in thinned(&plot.points) {
            let _ = write!(self.out, "{:.1},{:.1} ", x(at), y(value));
        }
        self.out.push_str("\"/>");
        if let Some(limit) = plot.limit {
            let at = y(limit);
            let _ = write!(
                self.out,
                "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#c33\" \
                 stroke-dasharray=\"4 4\"/>"
            );
            for (at, value) in plot.points.iter().filter(|p| p.1 > limit) {
                let _ = write!(
                    self.out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#c33\"/>",
                    x(*at),
                    y(*value)
                );
            }
        }
        let _ = writeln!(
            self.out,
            "<text x=\"{LEFT}\" y=\"{0}\">0 s</text>\
             <text x=\"{WIDTH}\" y=\"{0}\" text-anchor=\"end\">{1} s</text></svg>",
            HEIGHT - 4.0,
            short(x_max)
        );
    }

    /// Appends markup that another module has built.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// The document built so far.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.out
    }

    pub(crate) fn write(&self, path: &str) -> Outcome {
        fs::write(path, &self.out).map_err(failed(path))
    }
}

/// Reduces the points to at most `POINTS_MAX`: of a group of neighbours, the point with the greatest value is
/// kept.
fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let step = points.len().div_ceil(POINTS_MAX).max(1);
    points.chunks(step).map(|part| {
        part.iter()
            .copied()
            .fold((part[0].0, f64::MIN), |best, p| if p.1 > best.1 { p } else { best })
    })
}

/// Rounds up to the next number of the form 1, 2 or 5 times a power of ten.
pub(crate) fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|n| *n >= value).unwrap_or(value)
}

pub(crate) fn short(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{:.0}k", v / 1000.0),
        v if v >= 10.0 || v == 0.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_points_are_few() {
        let mut page = Page::new("a < b");
        page.table(&[vec!["<x>".into()], vec!["&".into()]]);
        let points = (0..100_000).map(|n| (f64::from(n), f64::from(n % 7))).collect();
        page.plot(&Plot { title: "t", unit: "ms", points, limit: Some(6.0) });
        assert!(page.out.contains("a &lt; b") && page.out.contains("<td>&amp;</td>"));
        assert!(page.out.len() < 40_000, "{}", page.out.len());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, round) in [(0.3, 0.5), (1.0, 1.0), (51.0, 100.0), (1999.0, 2000.0)] {
            assert!((round_up(value) / round - 1.0).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn the_greatest_of_neighbours_stands_for_them() {
        let points: Vec<_> = (0..2000).map(|n| (f64::from(n), f64::from(n % 2))).collect();
        assert!(thinned(&points).all(|p| p.1 == 1.0));
    }
}
