// Every peer is a program that reads one question a line and writes one answer a line, both JSON.
// This file is built into each of them; a peer has a `questions` table from operation to function.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

type question func(line []byte) (any, error)

type failure struct {
	Error string `json:"error,omitempty"`
	Panic string `json:"panic,omitempty"`
	Where string `json:"where,omitempty"`
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := bufio.NewWriterSize(os.Stdout, 1<<20)
	// Whatever the peer's own code prints must not end up among the answers.
	os.Stdout = os.Stderr
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		encoded, err := json.Marshal(reply(line))
		if err != nil {
			encoded, _ = json.Marshal(failure{Error: err.Error()})
		}
		answers.Write(encoded)
		answers.WriteByte('\n')
		// Many questions in flight are answered in one write; a single one at once.
		if lines.Buffered() == 0 {
			answers.Flush()
		}
	}
}

func reply(line []byte) (answer any) {
	defer func() {
		if problem := recover(); problem != nil {
			answer = failure{Panic: fmt.Sprint(problem), Where: panickedIn(string(debug.Stack()))}
		}
	}()
	var head struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return failure{Error: err.Error()}
	}
	ask, known := questions[head.Op]
	if !known {
		return failure{Error: fmt.Sprintf("unknown operation %q", head.Op)}
	}
	found, err := ask(line)
	if err != nil {
		return failure{Error: err.Error()}
	}
	return found
}

// panickedIn names the first function below the panic, which is the peer's.
func panickedIn(stack string) string {
	_, below, _ := strings.Cut(stack, "panic(")
	for _, line := range strings.Split(below, "\n") {
		if strings.Contains(line, "/") && strings.Contains(line, "(") && !strings.HasPrefix(line, "\t") &&
			!strings.HasPrefix(line, "runtime") {
			return line[:strings.LastIndex(line, "(")]
		}
	}
	return ""
}

// timed runs something a number of times; nanoseconds of CPU time of each run, of all threads, as other work on the machine distorts the wall clock.
func timed(repeat int, run func()) []int64 {
	took := make([]int64, repeat)
	for index := range took {
		started := cpuTime()
		run()
		took[index] = cpuTime() - started
	}
	return took
}

func cpuTime() int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
