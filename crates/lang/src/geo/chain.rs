//! A chain of vertices, open or closed, with a hierarchy of bounding boxes over its edges.
//!
//! ```text
//!   edges    e0 e1 ... e7   e8 e9 ... e15   ...
//!   level 1  [  box 0    ]  [   box 1    ]  ...      eight consecutive edges per box
//!   level 2  [            box 0              ...  ]  eight boxes per box
//! ```
//!
//! Neighbours in a chain are neighbours in space, so the boxes need no sorting. The hierarchy is built when a chain
//! with many edges is first searched. The cost of a search is about the logarithm of the number of edges, times the
//! number of results.

use std::sync::OnceLock;

use s2::r3::vector::Vector;

use super::sphere::{self, Point};

/// The number of children of a box.
const FANOUT: usize = 8;
/// Chains with fewer edges are searched linearly.
const PLAIN_EDGES_MAX: usize = 24;

/// A chain of edges.
#[derive(Debug, Default)]
pub struct Chain {
    vertices: Vec<Point>,
    closed: bool,
    tree: OnceLock<Vec<Vec<Block>>>,
}

impl Clone for Chain {
    fn clone(&self) -> Chain {
        Chain { vertices: self.vertices.clone(), closed: self.closed, tree: OnceLock::new() }
    }
}

/// A bounding box in space, with sides along the axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    low: [f64; 3],
    high: [f64; 3],
}

impl Block {
    /// The bounding box of an edge. It includes the ends and the height of the arc above the chord.
    pub(super) fn of_edge(a: &Point, b: &Point) -> Block {
        let half2 = sphere::chord2(a, b) / 4.0;
        let rise = 1.0 - (1.0 - half2).max(0.0).sqrt() + 1e-15;
        let (a, b) = (axes(&a.0), axes(&b.0));
        let low = std::array::from_fn(|i| a[i].min(b[i]) - rise);
        let high = std::array::from_fn(|i| a[i].max(b[i]) + rise);
        Block { low, high }
    }

    fn union(&self, other: &Block) -> Block {
        Block {
            low: std::array::from_fn(|i| self.low[i].min(other.low[i])),
            high: std::array::from_fn(|i| self.high[i].max(other.high[i])),
        }
    }

    pub(super) fn grown(&self, by: f64) -> Block {
        Block { low: self.low.map(|low| low - by), high: self.high.map(|high| high + by) }
    }

    fn meets(&self, other: &Block) -> bool {
        (0..3).all(|i| self.low[i] <= other.high[i] && other.low[i] <= self.high[i])
    }

    /// The squared distance from a point to the box.
    fn chord2(&self, p: &Vector) -> f64 {
        let p = axes(p);
        (0..3).map(|i| (self.low[i] - p[i]).max(p[i] - self.high[i]).max(0.0).powi(2)).sum()
    }
}

fn axes(v: &Vector) -> [f64; 3] {
    [v.x, v.y, v.z]
}

impl Chain {
    /// A line through the vertices.
    pub fn open(vertices: Vec<Point>) -> Chain {
        Chain { vertices, closed: false, tree: OnceLock::new() }
    }

    /// A ring; the last vertex is connected to the first.
    pub fn closed(vertices: Vec<Point>) -> Chain {
        Chain { vertices, closed: true, tree: OnceLock::new() }
    }

    pub fn vertices(&self) -> &[Point] {
        &self.vertices
    }

    pub(super) fn edge_count(&self) -> usize {
        if self.closed { self.vertices.len() } else { self.vertices.len().saturating_sub(1) }
    }

    pub(super) fn edge(&self, at: usize) -> (&Point, &Point) {
        let next = if at + 1 == self.vertices.len() { 0 } else { at + 1 };
        (&self.vertices[at], &self.vertices[next])
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (&Point, &Point)> {
        (0..self.edge_count()).map(|at| self.edge(at))
    }

    /// The same vertices in reverse order.
    pub(super) fn reversed(&self) -> Chain {
        let vertices = self.vertices.iter().rev().copied().collect();
        Chain { vertices, closed: self.closed, tree: OnceLock::new() }
    }

    fn tree(&self) -> &[Vec<Block>] {
        self.tree.get_or_init(|| {
            let mut levels = Vec::new();
            let mut below: Vec<Block> = self.edges().map(|(a, b)| Block::of_edge(a, b)).collect();
            while below.len() > 1 {
                let above = below
                    .chunks(FANOUT)
                    .map(|part| part.iter().skip(1).fold(part[0], |all, one| all.union(one)))
                    .collect();
                levels.push(std::mem::replace(&mut below, above));
            }
            levels.push(below);
            levels
        })
    }

    /// Calls `visit` with the index of each edge whose box intersects `block`, until it returns true.
    pub(super) fn any_edge_near(
        &self,
        block: &Block,
        visit: &mut dyn FnMut(usize) -> bool,
    ) -> bool {
        if self.edge_count() <= PLAIN_EDGES_MAX {
            return (0..self.edge_count()).any(|at| {
                let (a, b) = self.edge(at);
                Block::of_edge(a, b).meets(block) && visit(at)
            });
        }
        let tree = self.tree();
        let mut open = vec![(tree.len() - 1, 0)];
        while let Some((level, at)) = open.pop() {
            if !tree[level][at].meets(block) {
                continue;
            }
            if level == 0 {
                if visit(at) {
                    return true;
                }
                continue;
            }
            let end = ((at + 1) * FANOUT).min(tree[level - 1].len());
            open.extend((at * FANOUT..end).rev().map(|child| (level - 1, child)));
        }
        false
    }

    /// The squared chord from a point to the nearest point of the chain; infinite if there are no vertices.
    pub(super) fn chord2(&self, p: &Point) -> f64 {
        if self.vertices.len() == 1 {
            return sphere::chord2(p, &self.vertices[0]);
        }
        let mut best = f64::INFINITY;
        if self.edge_count() <= PLAIN_EDGES_MAX {
            for (a, b) in self.edges() {
                best = best.min(sphere::edge_chord2(p, a, b));
            }
            return best;
        }
        let tree = self.tree();
        let mut open = vec![(tree[tree.len() - 1][0].chord2(&p.0), tree.len() - 1, 0)];
        while let Some((least, level, at)) = open.pop() {
            if least >= best {
                continue;
            }
            if level == 0 {
                let (a, b) = self.edge(at);
                best = best.min(sphere::edge_chord2(p, a, b));
                continue;
            }
            let end = ((at + 1) * FANOUT).min(tree[level - 1].len());
            let first = open.len();
            open.extend(
                (at * FANOUT..end).map(|i| (tree[level - 1][i].chord2(&p.0), level - 1, i)),
            );
            // The nearest box is pushed last, so that it is popped first.
            open[first..].sort_by(|a, b| b.0.total_cmp(&a.0));
        }
        best
    }

    /// The angle from a point to the chain, in radians.
    pub(super) fn distance(&self, p: &Point) -> f64 {
        sphere::angle_of_chord2(self.chord2(p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boxes_find_what_a_walk_finds() {
        let vertices: Vec<Point> = (0..500)
            .map(|i| {
                let t = f64::from(i) / 500.0 * std::f64::consts::TAU;
                sphere::point_at(40.0 * t.cos(), 30.0 * t.sin() + 3.0 * (7.0 * t).sin())
            })
            .collect();
        let chain = Chain::closed(vertices);
        for i in 0..200 {
            let p = sphere::point_at(f64::from(i * 7 % 360 - 180), f64::from(i * 13 % 180 - 90));
            let walked = chain
                .edges()
                .map(|(a, b)| sphere::edge_chord2(&p, a, b))
                .fold(f64::INFINITY, f64::min);
            assert_eq!(chain.chord2(&p), walked);
            let q = sphere::point_at(f64::from(i % 50), f64::from(i % 30));
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let block = Block::of_edge(&p, &q);
            chain.any_edge_near(&block, &mut |at| {
                found.push(at);
                false
            });
            for at in 0..chain.edge_count() {
                let (a, b) = chain.edge(at);
                if Block::of_edge(a, b).meets(&block) {
                    expected.push(at);
                }
            }
            assert_eq!(found, expected);
        }
    }
}
