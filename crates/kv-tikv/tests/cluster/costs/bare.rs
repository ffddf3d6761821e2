//! The same requests by the client of the cluster alone, on keys and values of the sizes that the store has.

use std::future::Future;

use tikv_client::{
    CheckLevel, Snapshot, Transaction, TransactionClient, TransactionOptions, Value,
};
use tokio::runtime::{Builder, Runtime};

use crate::cluster::placement_driver;

/// As long as a document of the server's collections.
const VALUE: [u8; 120] = [7; 120];
const LOADED_AT_ONCE: u32 = 1000;
/// Entries that the store scans at a time.
const PAGE: u32 = 512;

pub(super) struct Bare {
    runtime: Runtime,
    client: TransactionClient,
    prefix: String,
}

fn options() -> TransactionOptions {
    TransactionOptions::new_optimistic().drop_check(CheckLevel::None)
}

impl Bare {
    pub(super) fn load(prefix: &str, count: u32) -> Bare {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let client =
            runtime.block_on(TransactionClient::new(vec![placement_driver()])).expect("connects");
        let bare = Bare { runtime, client, prefix: prefix.to_owned() };
        for from in (0..count).step_by(LOADED_AT_ONCE as usize) {
            bare.run(async {
                let mut txn = bare.client.begin_with_options(options()).await?;
                for n in from..from + LOADED_AT_ONCE {
                    txn.put(bare.key("entry", n), bare.key("record", n)).await?;
                    txn.put(bare.key("record", n), VALUE.to_vec()).await?;
                }
                txn.commit().await.map(drop)
            });
        }
        bare
    }

    fn run<T>(&self, work: impl Future<Output = tikv_client::Result<T>>) -> T {
        self.runtime.block_on(work).expect("the cluster answers")
    }

    fn key(&self, kind: &str, n: u32) -> Vec<u8> {
        format!("{}-{kind}-{n:010}", self.prefix).into_bytes()
    }

    async fn snapshot(&self) -> tikv_client::Result<Snapshot> {
        Ok(self.client.snapshot(self.client.current_timestamp().await?, options()))
    }

    /// A timestamp, and gets one after the other.
    pub(super) fn gets(&self, n: u32, count: u32) {
        self.run(async {
            let mut snapshot = self.snapshot().await?;
            for kind in ["entry", "record"].iter().take(count as usize) {
                snapshot.get(self.key(kind, n)).await?.expect("it is there");
            }
            Ok(())
        });
    }

    /// A scan of entries, page by page, and a batch of their records for each page.
    pub(super) fn range(&self, from: u32, count: u32) {
        self.run(async {
            let mut snapshot = self.snapshot().await?;
            let mut found = 0;
            while found < count {
                let page = PAGE.min(count - found);
                let from = from + found;
                found += self.page(&mut snapshot, from, page).await?.len() as u32;
            }
            assert_eq!(found, count);
            Ok(())
        });
    }

    async fn page(
        &self,
        snapshot: &mut Snapshot,
        from: u32,
        count: u32,
    ) -> tikv_client::Result<Vec<Value>> {
        let range = self.key("entry", from)..self.key("entry", from + count);
        let records: Vec<_> = snapshot.scan(range, count).await?.map(|pair| pair.1).collect();
        Ok(snapshot.batch_get(records).await?.map(|pair| pair.1).collect())
    }

    /// A transaction that reads so many keys one after the other, and writes so many new ones in one phase.
    pub(super) fn commit(&self, n: u32, reads: u32, writes: u32) {
        self.run(async {
            let mut txn: Transaction =
                self.client.begin_with_options(options().try_one_pc()).await?;
            for kind in ["entry", "record"].iter().cycle().take(reads as usize) {
                txn.get(self.key(kind, n % LOADED_AT_ONCE + reads)).await?;
            }
            for part in 0..writes {
                txn.put(self.key(&format!("new{writes}-{part}"), n), VALUE.to_vec()).await?;
            }
            txn.commit().await.map(drop)
        });
    }

    /// A scan of 100 entries and a batch of their records; then a batch of the entries of what these name, unless the
    /// records are found by their keys, and one of the records.
    pub(super) fn lookup(&self, n: u32, by_entry: bool) {
        self.run(async {
            let mut snapshot = self.snapshot().await?;
            let outer = self.page(&mut snapshot, n, 100).await?.len() as u32;
            let records: Vec<_> = match by_entry {
                true => {
                    let entries: Vec<_> = (n..n + outer).map(|n| self.key("entry", n)).collect();
                    snapshot.batch_get(entries).await?.map(|pair| pair.1).collect()
                }
                false => (n..n + outer).map(|n| self.key("record", n)).collect(),
            };
            assert_eq!(snapshot.batch_get(records).await?.count(), 100);
            Ok(())
        });
    }
}
