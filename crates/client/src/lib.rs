//! Producers and workers for redis-mq.
