// Places an order and publishes it, both or neither: node producer.js ITEM [--crash]
// --crash ends the process before the op, so that the agent is asked.
import { randomUUID } from "node:crypto";

import { database, group, halfTopic, kafka, producer, sendOp } from "./protocol.js";

const [item, crash] = process.argv.slice(2);
const topic = "orders.placed";

async function refuseUndeliverable() {
  const admin = kafka.admin();
  await admin.connect();
  const topics = await admin.listTopics();
  await admin.disconnect();
  if (!topics.includes(topic)) throw new Error(`topic ${topic} does not exist; make it first`);
}

async function storeHalf(transactionId) {
  const headers = {
    TRAN_MSG: "true",
    UNIQ_KEY: transactionId,
    PGROUP: group,
    REAL_TOPIC: topic,
    BORN_TIMESTAMP: String(Date.now()),
  };
  const message = { key: "customer-7", value: item, headers };
  const [stored] = await producer.send({ topic: halfTopic, acks: -1, messages: [message] });
  return { queue: stored.partition, offset: stored.baseOffset, transactionId, fromCheck: false };
}

// The id and the order, both or neither. After a check's rollback the id is taken, and this fails.
async function place(transactionId) {
  const connection = await database.connect();
  try {
    await connection.query("BEGIN");
    await connection.query("INSERT INTO transaction_log VALUES ($1, true)", [transactionId]);
    await connection.query("INSERT INTO orders VALUES ($1)", [item]);
    await connection.query("COMMIT");
  } catch (error) {
    await connection.query("ROLLBACK").catch(() => {});
    throw error;
  } finally {
    connection.release();
  }
}

await refuseUndeliverable();
await producer.connect();
const half = await storeHalf(randomUUID());
try {
  await place(half.transactionId);
} catch (error) {
  // The database may have committed all the same: a check finds out.
  await sendOp("UNKNOWN", { ...half, remark: `the local transaction raised ${error.name}` });
  throw error;
}
if (crash === "--crash") process.kill(process.pid, "SIGKILL");
await sendOp("COMMIT_MESSAGE", half);
console.log(`${half.transactionId} at ${half.queue}:${half.offset}`);
await producer.disconnect();
await database.end();
