//! Schedules of a queue: setting, removing, firing and listing them.

use std::collections::BTreeSet;

use redis::Value;

use super::{
    enqueued::{enqueued, Enqueued},
    queue::Queue,
    schedule::{checked_name, Schedule},
    schedules::{Scheduled, SchedulesPage, SyncedSchedules},
};
use crate::{
    error::{invalid, unexpected, Error},
    message::codec::Encode,
    reply::unsigned,
};

/// How many schedules are looked at in one page.
const PAGE: u32 = 1_000;

/// For messages that come again and again.
impl<T: ?Sized, C: Encode<T>> Queue<T, C> {
    /// Lets the queue enqueue the value by itself whenever the schedule says so, whether or not any
    /// producer or worker is there, once each time, also over failovers. Each run carries the
    /// instant that was meant, see [`Message::scheduled_at`](crate::Message::scheduled_at).
    ///
    /// A name is set again and again: whoever starts says what is to be. As long as the times are
    /// the same the next run stays where it is, and the value is replaced, also in a run that waits.
    ///
    /// ```no_run
    /// # async fn example(jobs: redis_mq_client::Queue<String>) -> Result<(), redis_mq_client::Error> {
    /// use redis_mq_client::Schedule;
    ///
    /// let nightly = Schedule::cron("30 2 * * *").time_zone("Europe/Zurich");
    /// jobs.schedule("clean-up", &"everything".into(), &nightly).await?;
    /// # Ok(()) }
    /// ```
    pub async fn schedule(
        &self,
        name: impl AsRef<[u8]>,
        value: &T,
        schedule: &Schedule,
    ) -> Result<Scheduled, Error> {
        let payload = self.payload(value)?;
        let command = schedule.command(self.name(), name.as_ref(), &payload)?;
        let reply = self.query(&command).await?;
        Scheduled::from_reply(&reply).ok_or(unexpected("MQ.SCHEDULE"))
    }

    /// [`Self::schedule`] for all schedules that there are to be; those of other names are removed.
    /// For a service that alone has schedules in this queue: where versions of it run side by side
    /// the one that starts last decides.
    ///
    /// All are set before one is removed. A value or an option that cannot be sent is an error, and
    /// then nothing was changed; after an error of the server some may have been set.
    pub async fn sync_schedules<'a, N, I>(&self, schedules: I) -> Result<SyncedSchedules, Error>
    where
        N: AsRef<[u8]>,
        I: IntoIterator<Item = (N, &'a T, Schedule)>,
        T: 'a,
    {
        let (mut commands, mut wanted) = (Vec::new(), BTreeSet::new());
        for (name, value, schedule) in schedules {
            let (name, payload) = (name.as_ref(), self.payload(value)?);
            commands.push(schedule.command(self.name(), name, &payload)?);
            if !wanted.insert(name.to_vec()) {
                return Err(invalid("name", "is there twice"));
            }
        }
        let mut synced = SyncedSchedules::default();
        for command in &commands {
            let reply = self.query(command).await?;
            let set = Scheduled::from_reply(&reply).ok_or(unexpected("MQ.SCHEDULE"))?;
            synced.set.push(set);
        }
        let mut next = Some(0);
        while let Some(cursor) = next {
            let page = self.schedules(cursor, PAGE).await?;
            let names = page.schedules.into_iter().map(|one| one.name);
            synced
                .removed
                .extend(names.filter(|name| !wanted.contains(name)));
            next = page.next;
        }
        self.unschedule(&synced.removed).await?;
        Ok(synced)
    }
}

/// For operators.
impl<T: ?Sized, C> Queue<T, C> {
    /// Removes schedules, and returns how many of the names were any. What they have enqueued stays.
    pub async fn unschedule<I>(&self, names: I) -> Result<u64, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let mut command = self.command("MQ.UNSCHEDULE", None);
        let mut any = false;
        for name in names {
            command.arg(checked_name(name.as_ref())?);
            any = true;
        }
        if !any {
            return Ok(0);
        }
        unsigned(&self.query(&command).await?).ok_or(unexpected("MQ.UNSCHEDULE"))
    }

    /// Enqueues what a schedule enqueues, now; its times stay. `None` if there is no such schedule.
    pub async fn fire(&self, name: impl AsRef<[u8]>) -> Result<Option<Enqueued>, Error> {
        let mut command = self.command("MQ.FIRE", None);
        command.arg(checked_name(name.as_ref())?);
        match self.query(&command).await? {
            Value::Nil => Ok(None),
            reply => enqueued(reply).map(Some).ok_or(unexpected("MQ.FIRE")),
        }
    }

    /// Lists schedules from a cursor on, 0 at first, and looks at about `count` places, 1 to 10000. A
    /// schedule that is there from the first page to the last is shown.
    pub async fn schedules(&self, cursor: u64, count: u32) -> Result<SchedulesPage, Error> {
        if !(1..=10_000).contains(&count) {
            return Err(invalid("count", "has to be 1 to 10000"));
        }
        let mut command = self.command("MQ.SCHEDULES", None);
        command.arg(cursor).arg("COUNT").arg(count);
        match self.query(&command).await? {
            Value::Nil => Ok(SchedulesPage::default()),
            reply => SchedulesPage::from_reply(reply).ok_or(unexpected("MQ.SCHEDULES")),
        }
    }
}
