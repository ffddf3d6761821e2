//! The cipher of one file: AES-256 in counter mode (NIST SP 800-38A).
//!
//! The counter block is a nonce of 8 bytes and the number of the block of 16 bytes, big endian. No file has 2^64
//! blocks, so it never repeats.

use std::fmt;

use aes::Aes256Enc;
use aes::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper, StreamCipherSeek};
use ctr::{CtrCore, flavors};

use crate::error::KeysError;
use crate::seal::{self, Secret};

pub(crate) const FILE_NONCE_BYTES: usize = 8;

/// Encrypts and decrypts one file at any position. Threads may share it.
pub struct FileCipher {
    /// The expanded key, zeroed when dropped.
    aes: Aes256Enc,
    nonce: [u8; FILE_NONCE_BYTES],
}

impl FileCipher {
    pub(crate) fn new(key: &Secret, nonce: [u8; FILE_NONCE_BYTES]) -> FileCipher {
        FileCipher { aes: Aes256Enc::new((&**key).into()), nonce }
    }

    /// A cipher whose key is stored nowhere: for files that only this process reads.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn ephemeral() -> Result<FileCipher, KeysError> {
        Ok(FileCipher::new(&seal::random()?, *seal::random()?))
    }

    /// Encrypts or decrypts bytes in place. `offset` is their position, counted from the end of the header: that of
    /// the file minus [`crate::HEADER_BYTES`].
    ///
    /// Two contents must not be encrypted at one position: who has both sees their difference.
    pub fn apply(&self, offset: u64, bytes: &mut [u8]) {
        let mut first = [0; 16];
        first[..FILE_NONCE_BYTES].copy_from_slice(&self.nonce);
        let core = CtrCore::<_, flavors::Ctr64BE>::inner_iv_init(&self.aes, &first.into());
        let mut stream = StreamCipherCoreWrapper::from_core(core);
        // Neither can fail: positions of bytes have 64 bits, and numbers of blocks too.
        stream.seek(offset);
        stream.apply_keystream(bytes);
    }
}

impl fmt::Debug for FileCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCipher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;
    use crate::seal::hex;

    fn cipher(key: &str, nonce: &str) -> FileCipher {
        let key = Zeroizing::new(hex(key).try_into().expect("32 bytes"));
        FileCipher::new(&key, hex(nonce).try_into().expect("8 bytes"))
    }

    /// NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt). Its counter blocks are f0f1f2f3f4f5f6f7 f8f9fafbfcfdfeff and
    /// those after it, so our position is the second half times 16, without the bits that a position has no room for.
    /// The vector is therefore compared block by block through the raw cipher, and the position by the rule in the
    /// header above.
    #[test]
    fn counter_mode_gives_the_published_result() {
        let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        let nonce = "f0f1f2f3f4f5f6f7";
        let aes = cipher(key, nonce).aes;
        let mut first = [0; 16];
        first.copy_from_slice(&hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
        let core = CtrCore::<_, flavors::Ctr64BE>::inner_iv_init(&aes, &first.into());
        let mut stream = StreamCipherCoreWrapper::from_core(core);
        let mut bytes = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
        stream.apply_keystream(&mut bytes);
        assert_eq!(
            bytes,
            hex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
                 2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6")
        );
    }

    /// The format on disk: the counter block is the nonce and the block's number.
    #[test]
    fn the_counter_block_is_nonce_and_number() {
        use aes::cipher::BlockCipherEncrypt;
        let cipher = cipher(&"0f".repeat(32), "0102030405060708");
        for block in [0_u64, 1, 255, 1 << 32, (1 << 60) - 1] {
            let mut counter = [0; 16];
            counter[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
            counter[8..].copy_from_slice(&block.to_be_bytes());
            let mut expected = counter.into();
            cipher.aes.encrypt_block(&mut expected);
            let mut bytes = [0; 16];
            cipher.apply(block * 16, &mut bytes);
            assert_eq!(bytes[..], expected[..], "{block}");
        }
    }

    proptest! {
        #[test]
        fn any_pieces_give_what_one_pass_gives(
            start in prop_oneof![0..100_u64, any::<u64>().prop_map(|at| at >> 1)],
            len in 0..5000_usize,
            cuts in prop::collection::vec(0..5000_usize, 0..6),
        ) {
            let cipher = cipher(&"a5".repeat(32), "0011223344556677");
            let plain: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let mut whole = plain.clone();
            cipher.apply(start, &mut whole);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(len)).collect();
            cuts.extend([0, len]);
            cuts.sort_unstable();
            let mut pieces = plain.clone();
            for pair in cuts.windows(2) {
                cipher.apply(start + pair[0] as u64, &mut pieces[pair[0]..pair[1]]);
            }
            prop_assert_eq!(&pieces, &whole);
            cipher.apply(start, &mut whole);
            prop_assert_eq!(whole, plain);
        }
    }

    #[test]
    fn no_two_ciphers_are_alike() {
        let (one, two) = (FileCipher::ephemeral().unwrap(), FileCipher::ephemeral().unwrap());
        let (mut a, mut b) = ([0; 64], [0; 64]);
        one.apply(0, &mut a);
        two.apply(0, &mut b);
        assert_ne!(a, b);
        assert_eq!(format!("{one:?}"), "FileCipher { .. }");
    }
}
