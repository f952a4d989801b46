//! Connections behind one type, whatever kind they are.

use redis::{
    aio::ConnectionLike, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value,
};

/// Any connection of the redis crate.
pub(crate) struct AnyConnection(pub(crate) Box<dyn ConnectionLike + Send>);

impl ConnectionLike for AnyConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

impl AnyConnection {
    /// The command's reply; a server's error is `Err`.
    pub(crate) async fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        command.query_async(self).await
    }

    /// One reply for each command of the pipeline, in order. A server's error is the reply of its
    /// command; `Err` is the failure of the connection, and says nothing of any command.
    pub(crate) async fn query_all(
        &mut self,
        pipeline: &Pipeline,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let replies: Vec<RedisResult<Value>> = pipeline.query_async(self).await?;
        if replies.len() != pipeline.len() {
            return Err(RedisError::from((
                ErrorKind::UnexpectedReturnType,
                "a pipeline was answered with another number of replies",
            )));
        }
        Ok(replies)
    }
}

/// A pipeline whose commands may fail one by one.
pub(crate) fn pipeline(capacity: usize) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(capacity);
    pipeline.ignore_errors();
    pipeline
}
