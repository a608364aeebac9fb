package broker

// Local is implemented by brokers and presence managers that live in the process.
// A node whose broker and presence manager both do establishes and ends
// subscriptions on the loops of its connections, without a goroutine in between.
//
// Local promises that Subscribe, Unsubscribe and History of the broker, and every
// method of the presence manager, wait for nothing but locks that are held
// briefly, and never during a call of the EventHandler.
type Local interface{ Local() }
