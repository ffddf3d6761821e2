//! Draws a chart of several curves over one axis, as inline SVG.
use crate::html::{Page, escaped, round_up, short};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 40.0;
const COLORS: [&str; 6] = ["#2a6fb0", "#c33", "#2a8a4a", "#b07a2a", "#7a2ab0", "#555"];

pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_unit: &'a str,
    pub(crate) y_unit: &'a str,
    pub(crate) series: Vec<Series>,
}

/// A curve. Its points are in ascending order of x.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Page {
    /// Appends the chart. Both axes begin at zero, and each point is marked.
    pub(crate) fn chart(&mut self, chart: &Chart<'_>) {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let x_max = points().map(|p| p.0).fold(1e-9, f64::max) * 1.05;
        let y_max = round_up(points().map(|p| p.1).fold(1e-9, f64::max));
        let x = |v: f64| LEFT + v / x_max * (WIDTH - LEFT - 10.0);
        let y = |v: f64| (HEIGHT - BOTTOM) * (1.0 - v / y_max) + 4.0;
        let mut out =
            format!("<h3>{}</h3><svg width=\"{WIDTH}\" height=\"{HEIGHT}\">", escaped(chart.title));
        for part in 0..=4 {
            let value = y_max * f64::from(part) / 4.0;
            let _ = write!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#eee\"/>\
                 <text x=\"{1:.0}\" y=\"{2:.1}\" text-anchor=\"end\">{3} {4}</text>",
                y(value),
                LEFT - 6.0,
                y(value) + 4.0,
                short(value),
                escaped(chart.y_unit)
            );
        }
        let mut places: Vec<f64> = points().map(|p| p.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        for place in places {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} {}</text>",
                x(place),
                HEIGHT - BOTTOM + 18.0,
                short(place),
                escaped(chart.x_unit)
            );
        }
        for (series, (number, color)) in chart.series.iter().zip(COLORS.iter().cycle().enumerate())
        {
            let _ = write!(out, "<polyline fill=\"none\" stroke=\"{color}\" points=\"");
            for (at, value) in &series.points {
                let _ = write!(out, "{:.1},{:.1} ", x(*at), y(*value));
            }
            out.push_str("\"/>");
            for (at, value) in &series.points {
                let _ = write!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{color}\"><title>{}</title></circle>",
                    x(*at),
                    y(*value),
                    short(*value)
                );
            }
            let _ = write!(
                out,
                "<text x=\"{:.0}\" y=\"{:.0}\" style=\"fill:{color}\">{}</text>",
                LEFT + 140.0 * number as f64,
                HEIGHT - 4.0,
                escaped(&series.name)
            );
        }
        out.push_str("</svg>\n");
        self.raw(&out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_each_curve_and_point() {
        let mut page = Page::new("t");
        let series = |name: &str| Series {
            name: name.to_owned(),
            points: vec![(92.0, 70_000.0), (182.0, 5.0)],
        };
        let series = vec![series("a<b"), series("c")];
        page.chart(&Chart { title: "t", x_unit: "%", y_unit: "/s", series });
        assert_eq!(page.text().matches("<polyline").count(), 2);
        assert_eq!(page.text().matches("<circle").count(), 4);
        assert!(page.text().contains("a&lt;b"));
    }
}
