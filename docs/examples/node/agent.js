// Answers the checks of a group from its database, until SIGTERM: node agent.js
import { setTimeout as sleep } from "node:timers/promises";

import { announce, checkTopic, database, group, kafka, producer, sendOp } from "./protocol.js";

// The resolver makes the topic with the group's first check (4). kafkajs does not wait for it.
async function topicIsThere() {
  const admin = kafka.admin();
  await admin.connect();
  while (!(await admin.listTopics()).includes(checkTopic)) await sleep(1000);
  await admin.disconnect();
}

// Without a trace of the id, write it down as rolled back: it can't commit any more.
async function ended(transactionId) {
  await database.query("INSERT INTO transaction_log VALUES ($1, false) ON CONFLICT DO NOTHING", [
    transactionId,
  ]);
  const found = await database.query(
    "SELECT committed FROM transaction_log WHERE transaction_id = $1",
    [transactionId],
  );
  return found.rows[0].committed ? "COMMIT_MESSAGE" : "ROLLBACK_MESSAGE";
}

async function answer({ message }) {
  const [queue, offset] = message.headers.HALF_OFFSET.toString().split(":");
  const half = { queue: Number(queue), offset, transactionId: message.headers.UNIQ_KEY.toString() };
  try {
    const state = await ended(half.transactionId);
    await sendOp(state, { ...half, fromCheck: true });
  } catch (error) {
    // No answer: it uses up none of the checks that a half has.
    const remark = `the agent's database raised ${error.name}`;
    await sendOp("UNKNOWN", { ...half, fromCheck: false, remark });
  }
}

await producer.connect();
await topicIsThere();
const consumer = kafka.consumer({
  groupId: group,
  readUncommitted: false,
  allowAutoTopicCreation: false,
});
await consumer.connect();
// From the beginning: the first check may be older than this group's first member.
await consumer.subscribe({ topic: checkTopic, fromBeginning: true });
// A former member may have read checks and not answered them: the resolver asks again (4, 6).
consumer.on(consumer.events.GROUP_JOIN, () => announce().catch(console.error));
// kafkajs commits a check's offset after `answer` has returned, so after the op is acknowledged.
await consumer.run({ eachMessage: answer });
console.log(`answers checks of ${group}`);

process.once("SIGTERM", async () => {
  await consumer.disconnect();
  await producer.disconnect();
  await database.end();
});
