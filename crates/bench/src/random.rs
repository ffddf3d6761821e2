//! A small random generator (xorshift64*): the same seed gives the same run.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Spreads small seeds. Zero is the only state that never changes.
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n.max(1)
    }
}

/// Numbers below n with a skewed distribution: Zipf's law with the exponent 0.99, as in YCSB, with the frequent
/// numbers scattered. After Gray and others, "Quickly generating billion-record synthetic databases", 1994.
#[derive(Clone)]
pub(crate) struct Zipf {
    n: u64,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipf {
    /// Costs one pass over the numbers up to `n`.
    pub(crate) fn new(n: u64) -> Zipf {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let all = zeta(n.max(1));
        let eta = (1.0 - (2.0 / n.max(1) as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / all);
        Zipf { n: n.max(1), zeta: all, eta }
    }

    pub(crate) fn next(&self, random: &mut Random) -> u64 {
        let u = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let scaled = u * self.zeta;
        let rank = if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(THETA) {
            1
        } else {
            (self.n as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
        };
        // Each rank is mapped to an almost unique number: YCSB's hash is no permutation either.
        (rank.min(self.n - 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8) % self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_come_often_and_all_may_come() {
        let (zipf, mut random) = (Zipf::new(1000), Random::new(7));
        let mut counts = vec![0_u32; 1000];
        for _ in 0..200_000 {
            counts[zipf.next(&mut random) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The first number has about 1 / zeta(1000) = 13 %, the first hundred have two thirds.
        assert!((20_000..36_000).contains(&counts[0]), "{}", counts[0]);
        let hundred: u32 = counts[..100].iter().sum();
        assert!((120_000..160_000).contains(&hundred), "{hundred}");
    }
}
