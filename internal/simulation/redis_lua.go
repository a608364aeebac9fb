package simulation

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// redisScript is a script as the engine sends it.
type redisScript struct {
	sha   string
	title string // its first comment
	code  *lua.FunctionProto
}

// compiled has the scripts of all runs, by their text.
var compiled sync.Map

func compile(text string) (*redisScript, error) {
	if s, ok := compiled.Load(text); ok {
		return s.(*redisScript), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "@user_script")
	if err != nil {
		return nil, err
	}
	code, err := lua.Compile(chunk, "@user_script")
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(text))
	s := &redisScript{sha: hex.EncodeToString(sum[:]), code: code}
	_, comment, _ := strings.Cut(text, "-- ")
	s.title, _, _ = strings.Cut(comment, "\n")
	compiled.Store(text, s)
	return s, nil
}

// redisLua runs scripts, one at a time.
type redisLua struct {
	state   *lua.LState
	execute func(args []string, script *bool) any
	dirty   bool // the script under way has written
}

func newRedisLua(execute func(args []string, dirty *bool) any) *redisLua {
	l := &redisLua{state: lua.NewState(lua.Options{SkipOpenLibs: true}), execute: execute}
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		open(l.state)
	}
	table := l.state.NewTable()
	l.state.SetField(table, "call", l.state.NewFunction(func(*lua.LState) int { return l.command(true) }))
	l.state.SetField(table, "pcall", l.state.NewFunction(func(*lua.LState) int { return l.command(false) }))
	l.state.SetGlobal("redis", table)
	return l
}

// command is redis.call, which raises errors, or redis.pcall.
func (l *redisLua) command(raise bool) int {
	args := make([]string, l.state.GetTop())
	for i := range args {
		switch v := l.state.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = decimal(float64(v))
		default:
			l.state.RaiseError("redis.call: an argument of type %s", v.Type())
		}
	}
	answer := l.execute(args, &l.dirty)
	value := l.value(answer)
	if _, failed := answer.(redisError); failed && raise {
		l.state.Error(value, 0)
	}
	l.state.Push(value)
	return 1
}

// value is an answer for a script.
func (l *redisLua) value(answer any) lua.LValue {
	named := func(field, text string) lua.LValue {
		t := l.state.NewTable()
		t.RawSetString(field, lua.LString(text))
		return t
	}
	switch a := answer.(type) {
	case string:
		return lua.LString(a)
	case int64:
		return lua.LNumber(a)
	case redisStatus:
		return named("ok", string(a))
	case redisError:
		return named("err", string(a))
	case redisMap:
		return l.value([]any(a))
	case []any:
		t := l.state.CreateTable(len(a), 0)
		for i, v := range a {
			t.RawSetInt(i+1, l.value(v))
		}
		return t
	}
	return lua.LFalse
}

// answer is the result of a script.
func answer(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return redisError(text)
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return redisStatus(text)
		}
		out := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			out = append(out, answer(v.RawGetInt(i)))
		}
		return out
	}
	return nil
}

func (l *redisLua) eval(s *redisScript, keys, args []string) any {
	list := func(texts []string) *lua.LTable {
		t := l.state.CreateTable(len(texts), 0)
		for i, text := range texts {
			t.RawSetInt(i+1, lua.LString(text))
		}
		return t
	}
	l.dirty = false
	l.state.SetGlobal("KEYS", list(keys))
	l.state.SetGlobal("ARGV", list(args))
	l.state.Push(l.state.NewFunctionFromProto(s.code))
	if err := l.state.PCall(0, 1, nil); err != nil {
		l.state.SetTop(0)
		if e := (*lua.ApiError)(nil); errors.As(err, &e) {
			if failure, ok := answer(e.Object).(redisError); ok {
				return failure + redisError(" script: "+s.sha+", on @user_script:1.")
			}
		}
		return redisError("ERR " + strings.ReplaceAll(err.Error(), "\n", " "))
	}
	v := l.state.Get(-1)
	l.state.Pop(1)
	return answer(v)
}
