//! `redis-mq contexts`.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use crate::{
    connect::{
        address::Address,
        contexts::{self, Context, Contexts},
    },
    failure::{Exit, Failure},
    output::Out,
};

/// Give servers names, so that --context NAME is enough; without a subcommand, list them.
///
/// They stand in ~/.config/redis-mq/contexts.json, or in the file that REDIS_MQ_CONTEXTS names, which
/// only its owner can read: addresses may hold passwords. The list shows none.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Add a name, or give it another server
    Set {
        /// The name
        name: String,
        /// The address, as --url takes it
        address: String,
        /// Certificates that vouch for the server (PEM)
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// The client's own certificate (PEM)
        #[arg(long, value_name = "FILE", requires = "key")]
        cert: Option<PathBuf>,
        /// The key of the client's certificate (PEM)
        #[arg(long, value_name = "FILE", requires = "cert")]
        key: Option<PathBuf>,
    },
    /// Choose the one that counts where none is named
    Use {
        /// The name
        name: String,
    },
    /// Remove a name
    Rm {
        /// The name
        name: String,
    },
}

/// Lists or changes them.
pub fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let file = contexts::file()
        .ok_or_else(|| Failure::usage("there is no HOME: name a file in REDIS_MQ_CONTEXTS"))?;
    let mut all = Contexts::read(&file)?;
    match args.what {
        None => return list(&all, json),
        Some(What::Set {
            name,
            address,
            ca,
            cert,
            key,
        }) => {
            Address::parse(&address)?;
            let context = Context {
                url: address,
                tls_ca: ca,
                tls_cert: cert,
                tls_key: key,
            };
            all.contexts.insert(name, context);
        }
        Some(What::Use { name }) => {
            all.named(&name)?;
            all.current = Some(name);
        }
        Some(What::Rm { name }) => {
            all.named(&name)?;
            all.contexts.remove(&name);
            all.current = all.current.filter(|current| *current != name);
        }
    }
    all.write(&file)?;
    Ok(Exit::OK)
}

fn list(all: &Contexts, json: bool) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let width = all.contexts.keys().map(String::len).max().unwrap_or(0);
    for (name, context) in &all.contexts {
        let shown = Address::parse(&context.url)?.shown();
        let current = all.current.as_ref() == Some(name);
        if json {
            out.line(json!({"name": name, "address": shown, "current": current}))?;
        } else {
            let mark = if current { '*' } else { ' ' };
            out.line(format_args!("{mark} {name:width$}  {shown}"))?;
        }
    }
    Ok(Exit::OK)
}
