//! What operators do with a queue: limits, pauses, dead letters sent again, messages
//! removed, a look at its groups.

use std::time::{Duration, SystemTime};

use redis::{Cmd, Value};

use super::{
    groups::GroupsPage,
    info::instant,
    limits::{GroupLimits, GroupSelection, LimitChanges, QueueLimits},
    options::checked_group,
    queue::Queue,
};
use crate::{
    error::{invalid, unexpected, Error},
    message::{id::MessageId, status::Status},
    millis::{millis, LONGEST},
    reply::{int, unsigned},
};

/// For operators.
impl<T: ?Sized, C> Queue<T, C> {
    /// The queue's limits; `None` if there is no queue.
    pub async fn limits(&self) -> Result<Option<QueueLimits>, Error> {
        match self.query(&self.command("MQ.LIMIT", None)).await? {
            Value::Nil => Ok(None),
            value => QueueLimits::from_reply(value)
                .map(Some)
                .ok_or(unexpected("MQ.LIMIT")),
        }
    }

    /// Sets limits of the queue, and leaves those that are not named as they are. The queue appears
    /// if it is not there, so that a deployment can set them before the first message.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(mails: redis_mq_client::Queue<String>) -> Result<(), redis_mq_client::Error> {
    /// use redis_mq_client::{Error, LimitChanges, Rate};
    ///
    /// let limits = LimitChanges::new().length(100_000).rate(Rate::new(50, Duration::from_secs(1)));
    /// mails.set_limits(&limits).await?;
    /// if let Err(Error::Full(_)) = mails.enqueue(&"text".into()).await {
    ///     println!("100000 mails wait already");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn set_limits(&self, changes: &LimitChanges) -> Result<(), Error> {
        let mut command = self.command("MQ.LIMIT", None);
        changes.write(&mut command, false)?;
        self.query(&command).await?;
        Ok(())
    }

    /// The limits of each group, or of the one of that name; `None` if there is no queue.
    pub async fn group_limits(
        &self,
        groups: impl Into<GroupSelection>,
    ) -> Result<Option<GroupLimits>, Error> {
        let mut command = self.command("MQ.LIMIT", None);
        groups.into().write(&mut command)?;
        match self.query(&command).await? {
            Value::Nil => Ok(None),
            value => GroupLimits::from_reply(value)
                .map(Some)
                .ok_or(unexpected("MQ.LIMIT")),
        }
    }

    /// Sets limits of each group, or of the one of that name. A group of which nothing is set has
    /// one message in flight, and keeps its order.
    pub async fn set_group_limits(
        &self,
        groups: impl Into<GroupSelection>,
        changes: &LimitChanges,
    ) -> Result<(), Error> {
        let mut command = self.command("MQ.LIMIT", None);
        groups.into().write(&mut command)?;
        changes.write(&mut command, true)?;
        self.query(&command).await?;
        Ok(())
    }

    /// Stops the deliveries of the queue until they are [resumed](Self::resume). Everything else
    /// goes on.
    pub async fn pause(&self) -> Result<(), Error> {
        self.send_pause(None, None).await.map(drop)
    }

    /// Stops the deliveries of the queue for that long. It never shortens a pause that is running.
    /// Returns when it ends, on the server's clock; `None` if it lasts until it is resumed.
    pub async fn pause_for(&self, time: Duration) -> Result<Option<SystemTime>, Error> {
        self.send_pause(None, Some(time)).await
    }

    /// [`Self::pause`] for one group.
    pub async fn pause_group(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.send_pause(Some(group.as_ref()), None).await.map(drop)
    }

    /// [`Self::pause_for`] for one group: what a handler does that was told to slow down with one
    /// of many customers.
    pub async fn pause_group_for(
        &self,
        group: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<Option<SystemTime>, Error> {
        self.send_pause(Some(group.as_ref()), Some(time)).await
    }

    async fn send_pause(
        &self,
        group: Option<&[u8]>,
        time: Option<Duration>,
    ) -> Result<Option<SystemTime>, Error> {
        let mut command = self.command("MQ.PAUSE", None);
        add_group(&mut command, group)?;
        if let Some(time) = time {
            if time.is_zero() || time > LONGEST {
                return Err(invalid("pause", "has to be 1 ms to 10 years long"));
            }
            command.arg("FOR").arg(millis(time));
        }
        let reply = self.query(&command).await?;
        int(&reply).ok_or(unexpected("MQ.PAUSE"))?;
        Ok(instant(&reply))
    }

    /// Lets the deliveries of the queue go on; `false` if it was not paused.
    pub async fn resume(&self) -> Result<bool, Error> {
        self.send_resume(None).await
    }

    /// Lets the deliveries of one group go on; `false` if it was not paused.
    pub async fn resume_group(&self, group: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.send_resume(Some(group.as_ref())).await
    }

    async fn send_resume(&self, group: Option<&[u8]>) -> Result<bool, Error> {
        let mut command = self.command("MQ.RESUME", None);
        add_group(&mut command, group)?;
        let resumed = int(&self.query(&command).await?).ok_or(unexpected("MQ.RESUME"))?;
        Ok(resumed > 0)
    }

    /// Sends dead letters again: their attempts count from 0. Returns how many of the ids had one
    /// that went back; one whose id has a live message stays, as does what would pass a limit.
    pub async fn redrive<I>(&self, ids: I) -> Result<u64, Error>
    where
        I: IntoIterator,
        I::Item: Into<MessageId>,
    {
        let mut command = self.command("MQ.REDRIVE", None);
        let mut ids = ids.into_iter().map(Into::into).peekable();
        match ids.peek() {
            None => return Ok(0),
            // In front it would be the option of that name. No message has this id.
            Some(first) if first.as_bytes().eq_ignore_ascii_case(b"COUNT") => {
                command.arg(&fastrand::u128(..).to_be_bytes()[..]);
            }
            Some(_) => {}
        }
        for id in ids {
            command.arg(id.as_bytes());
        }
        unsigned(&self.query(&command).await?).ok_or(unexpected("MQ.REDRIVE"))
    }

    /// Sends up to `count` dead letters again, 1 to 10000, the oldest first. Returns how many went
    /// back; fewer are all that may.
    pub async fn redrive_oldest(&self, count: u32) -> Result<u64, Error> {
        if !(1..=10_000).contains(&count) {
            return Err(invalid("count", "has to be 1 to 10000"));
        }
        let mut command = self.command("MQ.REDRIVE", None);
        command.arg("COUNT").arg(count);
        unsigned(&self.query(&command).await?).ok_or(unexpected("MQ.REDRIVE"))
    }

    /// Removes up to `count` messages of that status, 1 to 100000, with their waiting copies, and
    /// returns how many. Those that come first go first; call it until it returns 0. Locked ones
    /// are taken from their consumers.
    pub async fn purge(&self, status: Status, count: u32) -> Result<u64, Error> {
        self.send_purge(status.as_str(), count).await
    }

    /// [`Self::purge`] for every status but the locked ones.
    pub async fn purge_all(&self, count: u32) -> Result<u64, Error> {
        self.send_purge("ALL", count).await
    }

    async fn send_purge(&self, which: &str, count: u32) -> Result<u64, Error> {
        if !(1..=100_000).contains(&count) {
            return Err(invalid("count", "has to be 1 to 100000"));
        }
        let mut command = self.command("MQ.PURGE", None);
        command.arg(which).arg("COUNT").arg(count);
        unsigned(&self.query(&command).await?).ok_or(unexpected("MQ.PURGE"))
    }

    /// Lists groups from a cursor on, 0 at first, and looks at about `count` places, 1 to 10000. A
    /// group that is there from the first page to the last is shown at least once.
    ///
    /// ```no_run
    /// # async fn example(mails: redis_mq_client::Queue<String>) -> Result<(), redis_mq_client::Error> {
    /// let mut next = Some(0);
    /// while let Some(cursor) = next {
    ///     let page = mails.groups(cursor, 1_000).await?;
    ///     for group in page.groups {
    ///         println!("{:?} waits for {:?}", group.name, group.oldest);
    ///     }
    ///     next = page.next;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn groups(&self, cursor: u64, count: u32) -> Result<GroupsPage, Error> {
        if !(1..=10_000).contains(&count) {
            return Err(invalid("count", "has to be 1 to 10000"));
        }
        let mut command = self.command("MQ.GROUPS", None);
        command.arg(cursor).arg("COUNT").arg(count);
        match self.query(&command).await? {
            Value::Nil => Ok(GroupsPage::default()),
            value => GroupsPage::from_reply(value).ok_or(unexpected("MQ.GROUPS")),
        }
    }
}

fn add_group(command: &mut Cmd, group: Option<&[u8]>) -> Result<(), Error> {
    if let Some(group) = group {
        command.arg("GROUP").arg(checked_group(group)?);
    }
    Ok(())
}
