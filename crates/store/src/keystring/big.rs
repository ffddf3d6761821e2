//! Large integers, as far as required to convert a decimal to binary digits without loss, and back.

/// Limbs of 32 bits, least significant first, without leading zero limbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Big(Vec<u32>);

/// The largest power of ten in a limb, and its exponent.
const TEN_POWER: (u32, u32) = (1_000_000_000, 9);

impl Big {
    pub(crate) fn from_u128(value: u128) -> Big {
        let limbs = (0..4).map(|at| (value >> (32 * at)) as u32).collect();
        let mut big = Big(limbs);
        big.trim();
        big
    }

    /// The value, if it fits.
    pub(crate) fn to_u128(&self) -> Option<u128> {
        if self.0.len() > 4 {
            return None;
        }
        Some(self.0.iter().rev().fold(0, |sum, limb| (sum << 32) | u128::from(*limb)))
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn mul(&mut self, by: u32) {
        let mut carry = 0u64;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(by) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides and returns the remainder.
    fn div(&mut self, by: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.0.iter_mut().rev() {
            let part = (rest << 32) | u64::from(*limb);
            *limb = (part / u64::from(by)) as u32;
            rest = part % u64::from(by);
        }
        self.trim();
        rest as u32
    }

    /// Multiplies by 10^exponent.
    pub(crate) fn mul_ten(&mut self, exponent: u32) {
        for _ in 0..exponent / TEN_POWER.1 {
            self.mul(TEN_POWER.0);
        }
        self.mul(10u32.pow(exponent % TEN_POWER.1));
    }

    /// Divides by 10^exponent, rounding down. Returns true if there was no remainder.
    pub(crate) fn div_ten(&mut self, exponent: u32) -> bool {
        let mut exact = true;
        for _ in 0..exponent / TEN_POWER.1 {
            exact &= self.div(TEN_POWER.0) == 0;
        }
        exact & (self.div(10u32.pow(exponent % TEN_POWER.1)) == 0)
    }

    /// Multiplies by 2^shift.
    pub(crate) fn shl(&mut self, shift: usize) {
        self.mul(1 << (shift % 32));
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, shift / 32));
        }
    }

    /// Divides by 2^shift, rounding down.
    pub(crate) fn shr(&mut self, shift: usize) {
        self.0.drain(..(shift / 32).min(self.0.len()));
        let small = shift % 32;
        for at in 0..self.0.len() {
            let above = self.0.get(at + 1).map_or(0, |limb| u64::from(*limb) << 32);
            self.0[at] = ((above | u64::from(self.0[at])) >> small) as u32;
        }
        self.trim();
    }

    /// Number of bits up to the highest one that is set.
    pub(crate) fn bit_len(&self) -> usize {
        match self.0.last() {
            Some(top) => self.0.len() * 32 - top.leading_zeros() as usize,
            None => 0,
        }
    }

    fn bit(&self, at: usize) -> bool {
        self.0.get(at / 32).is_some_and(|limb| (limb >> (at % 32)) & 1 == 1)
    }

    /// The bits `[low, low + count)` as a number; `count` is at most 64.
    pub(crate) fn bits(&self, low: usize, count: usize) -> u64 {
        (0..count).rev().fold(0, |sum, at| (sum << 1) | u64::from(self.bit(low + at)))
    }

    /// Returns true if a bit below `end` is set.
    pub(crate) fn any_below(&self, end: usize) -> bool {
        (0..end / 32).any(|at| self.0.get(at).is_some_and(|limb| *limb != 0))
            || (end / 32 * 32..end).any(|at| self.bit(at))
    }
}

#[cfg(test)]
mod tests {
    use super::Big;

    #[test]
    fn multiplies_and_divides() {
        let mut big = Big::from_u128(7);
        big.mul_ten(40);
        big.shl(70);
        assert_eq!(big.bit_len(), 133 + 3 + 70);
        assert!(big.any_below(200));
        assert!(big.div_ten(40));
        assert_eq!(big.to_u128(), Some(7 << 70));
        assert!(!big.div_ten(30));
    }
}
