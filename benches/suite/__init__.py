"""`make bench`: redis-mq next to what people would use instead, on one machine in one run."""
