//! The cipher of one file: AES-256 in counter mode (NIST SP 800-38A).
//!
//! The counter block is a nonce of 8 bytes and the number of the block of 16 bytes, big endian. No file has 2^64
//! blocks, so it never repeats.
//!
//! The key stream is made in units of 64 blocks, the most that the instructions of a processor take at once. The first
//! block of a unit has a number that 64 divides, so the counters of a unit differ in their last byte only, and need no
//! arithmetic. What is encrypted is combined with the stream while this is in the processor's first cache. The crate
//! `ctr` computes, stores and reverses each counter by itself, which took as long as AES (`examples/speed.rs`).

use std::fmt;

use aes::cipher::array::{Array, ArraySize};
use aes::cipher::consts::{U16, U64, U1024};
use aes::cipher::inout::InOutBuf;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
};
use aes::{Aes256Enc, Block};

use crate::error::KeysError;
use crate::seal::{self, Secret};

pub(crate) const FILE_NONCE_BYTES: usize = 8;

const BLOCK_BYTES: usize = 16;
/// Blocks of a unit, and their bytes.
const UNIT: usize = 64;
const UNIT_BYTES: usize = UNIT * BLOCK_BYTES;
/// Bytes within this part of a unit are encrypted block by block: more take longer than the whole unit.
const FEW_BYTES: usize = 16 * BLOCK_BYTES;

type Unit = Array<Block, U64>;

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
        self.run(offset, bytes.into());
    }

    /// As [`FileCipher::apply`], from one buffer to another one of the same length: in one pass over both.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        if let Ok(bytes) = InOutBuf::new(from, to) {
            self.run(offset, bytes);
        }
    }

    fn run(&self, offset: u64, bytes: InOutBuf<'_, '_, u8>) {
        if !bytes.is_empty() {
            let nonce = self.nonce;
            self.aes.encrypt_with_backend(Work { nonce, offset, bytes });
        }
    }
}

/// Bytes that are encrypted.
struct Work<'i, 'o> {
    nonce: [u8; FILE_NONCE_BYTES],
    offset: u64,
    bytes: InOutBuf<'i, 'o, u8>,
}

impl BlockSizeUser for Work<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Work<'_, '_> {
    // Inlined, as the functions below, into a function that may use the instructions of the backend.
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Work { nonce, offset, mut bytes } = self;
        let nonce = u64::from_ne_bytes(nonce);
        let mut number = offset / UNIT_BYTES as u64;
        let skipped = (offset % UNIT_BYTES as u64) as usize;
        if skipped > 0 {
            let count = bytes.len().min(UNIT_BYTES - skipped);
            let (head, rest) = bytes.split_at(count);
            apply_part(backend, (nonce, number), skipped, head);
            bytes = rest;
            number += 1;
        }
        let (units, tail) = bytes.into_chunks::<U1024>();
        for mut unit in units {
            let mut stream = counters::<U64>(nonce, number * UNIT as u64);
            encrypt(backend, &mut stream);
            xor(stream.as_flattened_mut(), unit.get_in());
            unit.get_out().copy_from_slice(stream.as_flattened());
            number += 1;
        }
        if !tail.is_empty() {
            apply_part(backend, (nonce, number), 0, tail);
        }
    }
}

/// The counter blocks from a number on, which the count of blocks divides.
#[inline(always)]
fn counters<N: ArraySize>(nonce: u64, first: u64) -> Array<Block, N> {
    let first = first.to_be();
    let mut blocks = Array::<Block, N>::default();
    for (block, last) in blocks.iter_mut().zip(0_u64..) {
        block[..FILE_NONCE_BYTES].copy_from_slice(&nonce.to_ne_bytes());
        block[FILE_NONCE_BYTES..].copy_from_slice(&(first ^ last.to_be()).to_ne_bytes());
    }
    blocks
}

#[inline(always)]
fn encrypt<B: BlockCipherEncBackend<BlockSize = U16>>(backend: &B, unit: &mut Unit) {
    let (several, rest) = InOutBuf::from(unit.as_mut_slice()).into_chunks::<B::ParBlocksSize>();
    for blocks in several {
        backend.encrypt_par_blocks(blocks);
    }
    backend.encrypt_tail_blocks(rest);
}

/// The stream has a place of its own, so that the compiler may combine many bytes at once: those of `bytes` are read
/// and written at one place, or at two.
#[inline(always)]
fn xor(stream: &mut [u8], bytes: &[u8]) {
    for (stream, byte) in stream.iter_mut().zip(bytes) {
        *stream ^= *byte;
    }
}

/// Encrypts bytes that begin in a unit at a position, and do not go beyond its end.
#[inline(always)]
fn apply_part<B: BlockCipherEncBackend<BlockSize = U16>>(
    backend: &B,
    (nonce, number): (u64, u64),
    from: usize,
    mut bytes: InOutBuf<'_, '_, u8>,
) {
    let first = from / FEW_BYTES * FEW_BYTES;
    let number = number * UNIT as u64;
    let (from, end) = (from - first, from - first + bytes.len());
    if end <= FEW_BYTES {
        let mut stream = counters::<U16>(nonce, number + (first / BLOCK_BYTES) as u64);
        let needed = &mut stream[from / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)];
        needed.iter_mut().for_each(|block| backend.encrypt_block(block.into()));
        let stream = &mut stream.as_flattened_mut()[from..end];
        xor(stream, bytes.get_in());
        bytes.get_out().copy_from_slice(stream);
    } else {
        let mut stream = counters::<U64>(nonce, number);
        encrypt(backend, &mut stream);
        let stream = &mut stream.as_flattened_mut()[first + from..first + end];
        xor(stream, bytes.get_in());
        bytes.get_out().copy_from_slice(stream);
    }
}

impl fmt::Debug for FileCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCipher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use aes::cipher::{InnerIvInit, StreamCipher, StreamCipherCoreWrapper, StreamCipherSeek};
    use ctr::{CtrCore, flavors};
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;
    use crate::seal::hex;

    fn cipher(key: &str, nonce: &str) -> FileCipher {
        let key = Zeroizing::new(hex(key).try_into().expect("32 bytes"));
        FileCipher::new(&key, hex(nonce).try_into().expect("8 bytes"))
    }

    /// The crate `ctr`, which made the files of older versions.
    fn by_ctr(cipher: &FileCipher, first: [u8; 16], offset: u64, bytes: &mut [u8]) {
        let core = CtrCore::<_, flavors::Ctr64BE>::inner_iv_init(&cipher.aes, &first.into());
        let mut stream = StreamCipherCoreWrapper::from_core(core);
        stream.seek(offset);
        stream.apply_keystream(bytes);
    }

    /// NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt). Its counter blocks are f0f1f2f3f4f5f6f7 f8f9fafbfcfdfeff and
    /// those after it, so our position is the second half times 16, which has more bits than a position. The vector
    /// therefore tests the crate with which the cipher is compared below.
    #[test]
    fn counter_mode_gives_the_published_result() {
        let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        let cipher = cipher(key, "f0f1f2f3f4f5f6f7");
        let mut first = [0; 16];
        first.copy_from_slice(&hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
        let mut bytes = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
        by_ctr(&cipher, first, 0, &mut bytes);
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
            let mut first = [0; 16];
            first[..FILE_NONCE_BYTES].copy_from_slice(&cipher.nonce);
            let mut expected = plain.clone();
            by_ctr(&cipher, first, start, &mut expected);
            prop_assert_eq!(&whole, &expected);
            let mut copy = vec![0; len];
            cipher.copy(start, &plain, &mut copy);
            prop_assert_eq!(&copy, &whole);
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
