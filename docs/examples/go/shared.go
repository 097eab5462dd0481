// Two programs in one: a producer of transactional messages, and an agent that answers checks.
// The numbers are sections of docs/protocol.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const realTopic = "orders.placed"

var (
	group      = setting("GROUP", "orders")
	prefix     = setting("TXRESOLVER_TOPIC_PREFIX", "tx.")
	servers    = strings.Split(setting("TXRESOLVER_BOOTSTRAP_SERVERS", "localhost:9092"), ",")
	halfTopic  = prefix + "half"
	opTopic    = prefix + "op"
	checkTopic = prefix + "check." + group
)

// A half that Kafka has acknowledged.
type half struct {
	transactionID string
	queue         int32
	offset        int64
}

// The fields of an op (3).
type op struct {
	State          string   `json:"state"`
	Group          string   `json:"group"`
	Offsets        []int64  `json:"offsets"`
	TransactionIDs []string `json:"transaction_ids"`
	FromCheck      bool     `json:"from_check"`
	Remark         *string  `json:"remark"`
}

func main() {
	usage := "usage: example produce ITEM [--crash] | example answer"
	ctx := context.Background()
	database, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatalf("DATABASE_URL: %v", err)
	}
	defer database.Close()
	switch {
	case len(os.Args) >= 3 && os.Args[1] == "produce":
		err = produce(ctx, database, os.Args[2], len(os.Args) > 3 && os.Args[3] == "--crash")
	case len(os.Args) == 2 && os.Args[1] == "answer":
		err = answer(ctx, database)
	default:
		log.Fatal(usage)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// A client for ops: each goes to the partition of its half (3). franz-go's producers are idempotent
// and wait for all replicas.
func opClient() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// The number of queues: the partitions of the op topic (1).
func queuesOf(ctx context.Context, client *kgo.Client) (int32, error) {
	topics, err := kadm.NewClient(client).ListTopics(ctx, opTopic)
	if err != nil {
		return 0, err
	}
	return int32(len(topics[opTopic].Partitions)), topics.Error()
}

// Say in each queue that an agent of the group is there (4): an op without elements.
func announce(ctx context.Context, client *kgo.Client, queues int32) error {
	for queue := int32(0); queue < queues; queue++ {
		empty := op{"UNKNOWN", group, []int64{}, []string{}, true, nil}
		if err := store(ctx, client, queue, empty); err != nil {
			return fmt.Errorf("the agent could not announce itself: %w", err)
		}
	}
	return nil
}

// Send an op for one half, and wait for its acknowledgement.
func sendOp(ctx context.Context, client *kgo.Client, state string, of half, fromCheck bool, remark *string) error {
	about := op{state, group, []int64{of.offset}, []string{of.transactionID}, fromCheck, remark}
	if err := store(ctx, client, of.queue, about); err != nil {
		return fmt.Errorf("an op for %s was not stored: %w", of.transactionID, err)
	}
	return nil
}

func store(ctx context.Context, client *kgo.Client, queue int32, about op) error {
	value, err := json.Marshal(about)
	if err != nil {
		return err
	}
	record := &kgo.Record{
		Topic:     opTopic,
		Partition: queue,
		Value:     value,
		Headers:   []kgo.RecordHeader{{Key: "TAGS", Value: []byte("d")}},
	}
	return client.ProduceSync(ctx, record).FirstErr()
}
