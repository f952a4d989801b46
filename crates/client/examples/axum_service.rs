//! A web service that enqueues: `POST /orders` with an order in JSON.
//!
//! The order's number is the message's id, so that a client that repeats its request, because it
//! never saw the answer, does not order twice.
//!
//! ```text
//! curl -i localhost:3000/orders --json '{"number": 42, "article": "tea"}'
//! ```

use std::time::Duration;

use axum::{extract::State, http::StatusCode, routing::post, Json, Router};
use redis_mq_client::{redis, shutdown_signal, EnqueueOptions, Enqueued, Message, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    number: u64,
    article: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let address = std::env::var("LISTEN").unwrap_or("127.0.0.1:3000".into());
    let client = redis::Client::open(url)?;
    // It reconnects by itself, and is shared by all requests.
    let orders = Queue::<Order>::new(client.get_connection_manager().await?, "orders");

    // A worker may live in the same process, or in any other.
    let worker = Worker::builder(client, "orders").build(ship)?;

    let service = Router::new()
        .route("/orders", post(order))
        .with_state(orders);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, service)
        .with_graceful_shutdown(shutdown_signal()?)
        .await?;

    let left = worker.stop(Duration::from_secs(30)).await;
    println!("left: {}", left.unfinished.len());
    Ok(())
}

async fn order(
    State(orders): State<Queue<Order>>,
    Json(order): Json<Order>,
) -> (StatusCode, String) {
    let options = EnqueueOptions::new()
        .id(format!("order:{}", order.number))
        .attempts(10);
    match orders.enqueue_with(&order, options).await {
        Ok(Enqueued::Refused { id, status }) => (StatusCode::OK, format!("{id} is {status}\n")),
        Ok(accepted) => (
            StatusCode::ACCEPTED,
            format!("{} is accepted\n", accepted.id()),
        ),
        Err(error) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("please try again: {error}\n"),
        ),
    }
}

async fn ship(order: Message<Order>) -> Result<(), std::io::Error> {
    println!("shipping {} of {}", order.value.article, order.id());
    Ok(())
}
