//! A scheduler that stalls threads for long: purely random scheduling hardly ever keeps a thread at one point until
//! the others are done, and priorities do so for one thread at a time.

use shuttle::scheduler::{RandomScheduler, Schedule, Scheduler, Task, TaskId};

use crate::random::Random;

/// After one step in this many, the thread is stalled, if no other thread is.
const STALL_EACH: u64 = 10;
/// Upper limit of the steps for which a thread is stalled.
const STALL_TURNS: u64 = 200;

pub(crate) struct Stalling {
    chance: RandomScheduler,
    random: Random,
    /// The stalled thread, and the number of steps of other threads until it continues.
    still: Option<(TaskId, u64)>,
}

impl Stalling {
    pub(crate) fn new_from_seed(seed: u64) -> Stalling {
        let chance = RandomScheduler::new_from_seed(seed, 1);
        Stalling { chance, random: Random::new(seed), still: None }
    }
}

impl Scheduler for Stalling {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.chance.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if self.still.is_none() && self.random.below(STALL_EACH) == 0 {
            self.still = current.map(|current| (current, self.random.below(STALL_TURNS)));
        }
        let moving = |still| runnable.iter().filter(|task| task.id() != still).copied().collect();
        let moving: Vec<&Task> = match &mut self.still {
            Some((still, turns)) if *turns > 0 => {
                *turns -= 1;
                moving(*still)
            }
            _ => Vec::new(),
        };
        if moving.is_empty() {
            self.still = None;
            return self.chance.next_task(runnable, current, is_yielding);
        }
        self.chance.next_task(&moving, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.chance.next_u64()
    }
}
