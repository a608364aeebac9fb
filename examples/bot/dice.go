package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

const (
	mostDice  = 10
	mostSides = 100
)

const usage = "Write /roll 2d6 for two dice with six sides, up to /roll 10d100."

// answer depends on the message's ID alone, so it is the same however often it is made. It begins with no slash, so the
// bot does not answer itself.
func answer(user string, m message) (string, bool) {
	command, rest, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	switch command {
	case "/help":
		return usage, true
	case "/roll":
	default:
		return "", false
	}
	var dice, sides int
	if n, err := fmt.Sscanf(rest, "%dd%d", &dice, &sides); n != 2 || err != nil || dice < 1 || dice > mostDice || sides < 2 || sides > mostSides {
		return usage, true
	}
	h := fnv.New64a()
	h.Write([]byte(m.ID))
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	sum, shown := 0, make([]string, dice)
	for i := range shown {
		die := 1 + random.IntN(sides)
		sum, shown[i] = sum+die, fmt.Sprint(die)
	}
	return fmt.Sprintf("%s rolled %s = %d", user, strings.Join(shown, " + "), sum), true
}
