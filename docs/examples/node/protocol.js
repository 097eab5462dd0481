// What both programs share: names, settings, the op. The numbers are sections of docs/protocol.md.
import { Kafka, Partitioners, logLevel } from "kafkajs";
import pg from "pg";

export const group = process.env.GROUP ?? "orders";
const prefix = process.env.TXRESOLVER_TOPIC_PREFIX ?? "tx.";
const servers = process.env.TXRESOLVER_BOOTSTRAP_SERVERS ?? "localhost:9092";

export const halfTopic = `${prefix}half`;
export const opTopic = `${prefix}op`;
export const checkTopic = `${prefix}check.${group}`;

export const kafka = new Kafka({
  clientId: `node-${group}`,
  brokers: servers.split(","),
  logLevel: logLevel.ERROR,
});

// acks=all and idempotent (4). Java's partitioner puts all halves of a key into one queue (4, order).
export const producer = kafka.producer({
  idempotent: true,
  maxInFlightRequests: 1,
  allowAutoTopicCreation: false,
  createPartitioner: Partitioners.DefaultPartitioner,
});

export const database = new pg.Pool({ connectionString: process.env.DATABASE_URL });

// In each queue: an agent of the group is there (4).
export async function announce() {
  const op = { state: "UNKNOWN", group, offsets: [], transaction_ids: [], from_check: true };
  const admin = kafka.admin();
  await admin.connect();
  const queues = await admin.fetchTopicOffsets(opTopic);
  await admin.disconnect();
  const messages = queues.map(({ partition }) => {
    return { partition, value: JSON.stringify(op), headers: { TAGS: "d" } };
  });
  await producer.send({ topic: opTopic, messages });
}

// An op for one half, in the partition of its half (3). An offset above 2^53 needs another JSON.
export async function sendOp(state, { queue, offset, transactionId, fromCheck, remark = null }) {
  const op = {
    state,
    group,
    offsets: [Number(offset)],
    transaction_ids: [transactionId],
    from_check: fromCheck,
    remark,
  };
  const record = { partition: queue, value: JSON.stringify(op), headers: { TAGS: "d" } };
  await producer.send({ topic: opTopic, messages: [record] });
}
